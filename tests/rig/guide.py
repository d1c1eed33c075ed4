"""Runs a guide: the shell commands of a Markdown file, in their order.

    guide = Guide(ROOT / "docs/guides/machine-lost.md", rig.folder,
                  replace={"/var/lib/grapnel": str(rig.state_dir),
                           "hooks.example.com": f"127.0.0.1:{rig.ingress_port}"},
                  commands={"systemctl": systemctl,
                            "runuser": 'shift 3; exec "$@"'})
    self.addCleanup(guide.close)
    guide.run("Prepare")                  # the blocks under this heading
    … what happens meanwhile, as a reader's machine would have it …
    said = guide.run("On the new machine")
    self.assertIn("requests accepted since", said)
    guide.finish()                        # every block was run, nothing is stale

What a guide is made of
  ```sh         is run by bash, which stops at the first command that fails. Folder
                and variables are kept from block to block, as in one terminal.
  ```yaml, ```nginx, ```ini, …  is shown only, unless a line before the fence
                says where a reader puts it:  <!-- file: /etc/grapnel/grapnel.yaml -->
                Then it is written there, when its turn comes. With `append:` instead
                of `file:` it is added to that file.
  <!-- not run: REASON -->  before a ```sh fence: the test can't do this.
  <!-- output -->           before a fence behind an ```sh block: what that block
                prints. Each of its lines must be in the real output, in this order;
                "…" in a line is any text.
Each comment is on a line of its own, right before its fence. They are invisible where
Markdown is shown.

replace     strings of the guide and what a test has instead: folders, ports, hosts.
            The longest first; each must be in the guide. Nothing else is changed.
commands    programs that a test can't run as they are (systemctl, apt-get, ssh),
            found first in PATH: a string is the text of a shell script; a function is
            called in the test's process with the list of arguments, and returns the
            exit code (None is 0) or what the command prints.
env         more of the environment.

run() returns what the commands printed, with their errors; when one fails, it raises
AssertionError with file, line, the block and all that was printed. Commands get no
standard input. What they leave running in the background is the test's to end.
"""

import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading

FENCE = re.compile(r"^( *)(`{3,})\s*([\w+-]*)\s*$")
HEADING = re.compile(r"^#{1,6} +(.*?)\s*#*$")
SAYS = re.compile(r"^ *<!-- *(file|append|not run|output) *(?:: *(.*?))? *-->$")

# In front of each block: what the block before left, then stop at any failure.
BEFORE = """set -a
[ ! -e "$GUIDE_STATE.env" ] || . "$GUIDE_STATE.env"
cd "$(cat "$GUIDE_STATE.cwd")"
trap 'code=$?; export -p > "$GUIDE_STATE.env"; pwd > "$GUIDE_STATE.cwd"; exit $code' EXIT
set -eo pipefail
"""
ASK = """#!{python}
import json, socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.connect({path!r})
    s.sendall(json.dumps([{name!r}, *sys.argv[1:]]).encode())
    s.shutdown(socket.SHUT_WR)
    code, text = json.loads(b"".join(iter(lambda: s.recv(65536), b"")))
sys.stdout.write(text)
sys.exit(code)
"""


class Block:
    def __init__(self, heading, line, language, says, argument, text):
        self.heading, self.line, self.language = heading, line, language
        self.says, self.argument, self.text = says, argument, text

    @property
    def counts(self):
        """Something has to be done with it."""
        return self.says in ("file", "append", "output") or \
            (self.language == "sh" and self.says != "not run")


def blocks_of(text):
    """Every fenced block of a Markdown text."""
    heading, found, lines, i = None, [], text.splitlines(), 0
    while i < len(lines):
        fence = FENCE.match(lines[i])
        if not fence:
            title = HEADING.match(lines[i])
            heading = title.group(1) if title else heading
            i += 1
            continue
        indent, ticks, language = fence.groups()
        says = SAYS.match(lines[i - 1]) if i else None
        first = i = i + 1
        while i < len(lines) and lines[i].strip() != ticks:
            i += 1
        assert i < len(lines), f"line {first}: this fence has no end"
        body = [line[len(indent):] if line.startswith(indent) else line.lstrip()
                for line in lines[first:i]]
        found.append(Block(heading, first + 1, language,
                           *(says.groups() if says else (None, None)),
                           "\n".join(body) + "\n"))
        i += 1
    return found


class Guide:
    def __init__(self, path, folder, replace=None, commands=None, env=None):
        self.path = pathlib.Path(path)
        self.blocks = blocks_of(self.path.read_text())
        self.replace = dict(replace or {})
        self.done, self.printed = set(), ""
        self.home = pathlib.Path(folder) / "guide"
        (self.home / "bin").mkdir(parents=True)
        self.state = self.home / "shell"
        pathlib.Path(f"{self.state}.cwd").write_text(f"{self.home}\n")
        self.env = {**os.environ, **(env or {})}
        self.env["GUIDE_STATE"] = str(self.state)
        self.env["PATH"] = f"{self.home / 'bin'}:{self.env['PATH']}"
        self.commands = commands or {}
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(self.home / "ask"))
        self.listener.listen()
        for name, what in self.commands.items():
            script = self.home / "bin" / name
            script.write_text(
                f"#!/bin/sh\n{what}\n" if isinstance(what, str) else
                ASK.format(python=sys.executable, name=name,
                           path=str(self.home / "ask")))
            script.chmod(0o755)
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                name, *words = json.loads(
                    b"".join(iter(lambda: connection.recv(65536), b"")))
                try:
                    said = self.commands[name](words)
                except Exception as error:  # the guide's command fails, visibly
                    said, code = f"{name}: {type(error).__name__}: {error}\n", 1
                else:
                    code = said if isinstance(said, int) else 0
                    said = said if isinstance(said, str) else ""
                connection.sendall(json.dumps([code, said]).encode())

    def text(self, text):
        """This text with the test's folders, ports and hosts."""
        for old in sorted(self.replace, key=len, reverse=True):
            text = text.replace(old, self.replace[old])
        return text

    def run(self, *headings, timeout=300):
        """Does what is under these headings (all that is left, if none is named),
        in the guide's order; what was printed."""
        known = {block.heading for block in self.blocks}
        for heading in headings:
            assert heading in known, \
                f"{self.path.name} has no block under {heading!r}; it has {known}"
        printed = ""
        for n, block in enumerate(self.blocks):
            if not block.counts or n in self.done or \
                    (headings and block.heading not in headings):
                continue
            self.done.add(n)
            if block.says in ("file", "append"):
                self._write(block)
            elif block.says == "output":
                self._compare(block)
            else:
                self.printed = self._shell(block, timeout)
                printed += self.printed
        return printed

    def _where(self, block):
        return f"{self.path.name}, line {block.line} ({block.heading})"

    def _write(self, block):
        cwd = pathlib.Path(f"{self.state}.cwd").read_text().strip()
        path = pathlib.Path(cwd, self.text(block.argument))
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a" if block.says == "append" else "w",
                  encoding="utf-8") as out:
            out.write(self.text(block.text))

    def _shell(self, block, timeout):
        text = BEFORE + self.text(block.text)
        out = self.home / "out"  # a file: a daemon may keep it open
        with open(out, "wb") as to:
            try:
                code = subprocess.run(
                    ["/bin/bash", "-c", text], stdin=subprocess.DEVNULL,
                    stdout=to, stderr=to, env=self.env,
                    timeout=timeout).returncode
            except subprocess.TimeoutExpired:
                code = f"no end within {timeout} s"
        said = out.read_text(errors="replace")
        assert code == 0, \
            f"{self._where(block)}: exit {code}\n{self.text(block.text)}\n{said}"
        return said

    def _compare(self, block):
        rest = self.printed
        for line in filter(None, map(str.strip, self.text(block.text).split("\n"))):
            pattern = r".*?".join(r"\s+".join(map(re.escape, part.split()))
                                  for part in re.split(" *… *", line))
            found = re.search(pattern, rest)
            assert found, (f"{self._where(block)}: this was not printed: {line}\n"
                           f"but:\n{self.printed}")
            rest = rest[found.end():]

    def finish(self):
        """Nothing of the guide was left out, and nothing is replaced that it no
        longer says."""
        left = [self._where(block) for n, block in enumerate(self.blocks)
                if block.counts and n not in self.done]
        assert not left, f"never run: {left}"
        text = self.path.read_text()
        stale = [old for old in self.replace if old not in text]
        assert not stale, f"{self.path.name} does not say {stale}"

    def close(self):
        self.listener.close()
