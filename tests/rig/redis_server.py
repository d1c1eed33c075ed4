"""A Redis server of a test's own, on a Unix socket in a temporary folder, or also on a port."""
import pathlib
import shutil
import socket
import subprocess
import tempfile

from rig import die_with_parent, wait_for


def program():
    """Debian's redis-tools has the server under another name; what it does depends on its name."""
    return shutil.which("redis-server") or shutil.which("redis-check-rdb")


class Redis:
    def __init__(self, port=0):
        self.port = port
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gr-redis-"))
        server = self.folder / "redis-server"
        server.symlink_to(program())
        self.socket = self.folder / "redis.sock"
        self.child = subprocess.Popen(
            [str(server), "--bind", "127.0.0.1", "--port", str(port),
             "--unixsocket", str(self.socket), "--save", "", "--dir", str(self.folder),
             "--logfile", str(self.folder / "log")],
            preexec_fn=die_with_parent)
        wait_for(self.responds, what="Redis to be up")

    @property
    def uri(self):
        if self.port:
            return f"redis://127.0.0.1:{self.port}"
        return f"unix://{self.socket}"

    def responds(self):
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(str(self.socket))
                s.sendall(b"PING\r\n")
                return s.recv(64).startswith(b"+PONG")
            except OSError:
                return False

    def close(self):
        self.child.kill()
        self.child.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
