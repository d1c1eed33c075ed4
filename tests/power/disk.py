"""What a disk could hold after a power cut, made of the journals of rig-power.so.

The disk keeps the content of each file as of its last sync, and any part of what
was written after it: nothing, some writes, all of them, sectors of 512 bytes in any
order. A name that was made, removed or changed since the last sync of its folder
may be as before. A mapped file is any mixture of its sectors."""

import dataclasses
import pathlib
import struct

SECTOR = 512
HEAD = struct.Struct("<cHIQ")


@dataclasses.dataclass
class File:
    durable: bytearray = dataclasses.field(default_factory=bytearray)
    # ("W", offset, bytes) and ("T", size, b""), oldest first
    pending: list = dataclasses.field(default_factory=list)
    mapped: bool = False

    def apply(self, writes):
        for what, at, data in writes:
            if what == "T":
                del self.durable[at:]
                self.durable.extend(bytes(at - len(self.durable)))
            else:
                end = at + len(data)
                self.durable.extend(bytes(max(0, end - len(self.durable))))
                self.durable[at:end] = data


def sectors(write):
    """A write in pieces that a disk writes whole."""
    what, at, data = write
    if what == "T":
        return [write]
    edges = [at, *range(at - at % SECTOR + SECTOR, at + len(data), SECTOR),
             at + len(data)]
    return [(what, a, data[a - at:b - at]) for a, b in zip(edges, edges[1:])]


class Disk:
    def __init__(self, folder, journals):
        self.folder, self.journals = pathlib.Path(folder), pathlib.Path(journals)
        self.forget()

    def forget(self):
        """The disk is as the folder is now, and all of it is durable."""
        for path in self.journals.iterdir():
            path.unlink()
        self.read = {}    # bytes of each journal that were read
        self.names = {}   # path: File, as the processes see them
        self.kept = {}    # path: File, as of the last sync of the folder
        self.changed = []  # [(path, File or None)] since then
        for path in self.folder.iterdir():
            if path.is_file():
                self.names[str(path)] = File(bytearray(path.read_bytes()))
        self.kept = dict(self.names)

    def rename(self, path, file):
        if file is None:
            self.names.pop(path, None)
        else:
            self.names[path] = file
        self.changed.append((path, file))

    def note(self, what, path, at, data):
        if what == "D":
            for changed, file in self.changed:
                self.put(self.kept, changed, file)
            self.changed.clear()
            return
        if what == "C":
            self.rename(path, File())
            return
        file = self.names.get(path)
        if file is None:
            return  # written after its name was removed: nobody finds it
        if what == "U":
            self.rename(path, None)
        elif what == "R":
            self.rename(path, None)
            self.rename(data.decode(), file)
        elif what == "M":
            file.mapped = True
        elif what == "S":
            file.apply(file.pending)
            file.pending.clear()
        else:
            file.pending.append((what, at, data))

    @staticmethod
    def put(names, path, file):
        if file is None:
            names.pop(path, None)
        else:
            names[path] = file

    def catch_up(self):
        """Read what the journals say by now. The processes have been killed."""
        for path in sorted(self.journals.iterdir()):
            with open(path, "rb") as journal:
                journal.seek(self.read.get(path, 0))
                said = journal.read()
            at = 0
            while at + HEAD.size <= len(said):
                what, path_n, data_n, offset = HEAD.unpack_from(said, at)
                end = at + HEAD.size + path_n + data_n
                if end > len(said):
                    break  # killed within this record
                data_at = at + HEAD.size + path_n
                self.note(what.decode(), said[at + HEAD.size:data_at].decode(),
                          offset, said[data_at:end])
                at = end
            self.read[path] = self.read.get(path, 0) + at

    def survivors(self, dice, pending):
        """Which part of the pending writes reached the disk, in which order."""
        how = dice.choice(["none", "all", "first", "some", "torn", "any order"])
        if how == "none":
            return []
        if how == "all":
            return pending
        if how == "first":
            return pending[:dice.randint(0, len(pending))]
        pieces = [piece for write in pending for piece in
                  (sectors(write) if how != "some" else [write])]
        share = dice.random()
        pieces = [piece for piece in pieces if dice.random() < share]
        if how == "any order":
            dice.shuffle(pieces)
        return pieces

    def content(self, dice, path, file):
        now = pathlib.Path(path)
        if file.mapped and now.exists():
            new = now.read_bytes()
            old = bytes(file.durable).ljust(len(new), b"\0")
            return b"".join(
                (new if dice.random() < 0.5 else old)[at:at + SECTOR]
                for at in range(0, len(new), SECTOR))
        file.apply(self.survivors(dice, file.pending))
        return bytes(file.durable)

    def cut(self, dice, prefix=""):
        """The power is cut for the processes whose files begin with `prefix`
        (all): the folder becomes what their disk could hold. They are dead."""
        self.catch_up()
        folder = str(self.folder) + "/"

        def theirs(path):
            return path.startswith(folder + prefix)
        names = {p: f for p, f in self.names.items() if not theirs(p)}
        names.update((p, f) for p, f in self.kept.items() if theirs(p))
        lost = dice.choice([0.0, 0.5, 1.0])  # of the changed names
        for path, file in self.changed:
            if theirs(path) and dice.random() >= lost:
                self.put(names, path, file)
        contents = {path: self.content(dice, path, file)
                    for path, file in names.items() if theirs(path)}
        # In place: a power cut changes no inode, and a new one is a sign of a copy.
        for path in self.folder.iterdir():
            name = str(path)
            if path.is_file() and theirs(name) and (
                    name not in contents or name.endswith("-shm")):
                path.unlink()  # -shm: in memory only, SQLite makes it anew
        for name, data in contents.items():
            if not name.endswith("-shm"):
                path = pathlib.Path(name)
                with open(path, "r+b" if path.exists() else "wb") as file:
                    file.truncate()
                    file.write(data)
                path.chmod(0o600)
        if prefix:
            self.names = names
            self.names.update((p, File(bytearray(d)))
                              for p, d in contents.items())
            self.kept.update((p, self.names[p]) for p in contents)
            for path in [p for p in self.kept
                         if theirs(p) and p not in contents]:
                del self.kept[path]
            self.changed = [(p, f) for p, f in self.changed if not theirs(p)]
        else:
            self.forget()
