"""A program on a terminal: a pty, and pyte for what it shows."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios

import pyte
from rig import program, wait_for


class Terminal:
    """A program on a terminal; what it shows is in `lines`."""

    def __init__(self, rig, *words, term="xterm-256color", rows=24, columns=80,
                 command=None):
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.child, self.fd = pty.fork()
        if self.child == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ,
                        struct.pack("4H", rows, columns, 0, 0))
            env = {**os.environ, **rig.env, "TERM": term}
            for name in ("LINES", "COLUMNS", "NO_COLOR"):
                env.pop(name, None)
            command = command or [program("grapnel"), *words, "-c",
                                  str(rig.config_path)]
            os.execvpe(command[0], command, env)
        self.before = termios.tcgetattr(self.fd)
        self.code = None

    def read(self):
        """Take what it has written. False: it has ended."""
        try:
            while select.select([self.fd], [], [], 0)[0]:
                data = os.read(self.fd, 65536)
                self.raw += data
                self.stream.feed(data)
        except OSError:
            return False  # the other side is closed
        return True

    def lines(self):
        self.read()
        return self.screen.display

    def wait(self, *patterns, timeout=15, meanwhile=lambda: None):
        """Until one line has all of these; that line."""
        def found():
            meanwhile()
            return next((line for line in self.lines()
                         if all(re.search(p, line) for p in patterns)), None)
        try:
            return wait_for(found, timeout)
        except AssertionError:
            raise AssertionError(
                f"no line has {patterns}:\n" + "\n".join(self.lines())) from None

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ,
                    struct.pack("4H", rows, columns, 0, 0))

    def wait_exit(self):
        wait_for(lambda: not self.read(), what="it to end")
        self.code = os.waitstatus_to_exitcode(os.waitpid(self.child, 0)[1])
        return self.code

    def close(self):
        if self.code is None:
            os.kill(self.child, signal.SIGKILL)
            os.waitpid(self.child, 0)
        os.close(self.fd)
