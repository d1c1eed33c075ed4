"""What strangers can do to the console's HTTP: connections that say nothing or
read nothing, and names that are not its own."""

import contextlib
import pathlib
import socket
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, main


class Strangers(RigTest):
    def console(self, interval="100ms", **settings):
        rig = self.rig(console=True)
        rig.config["metrics"]["interval"] = interval
        rig.config["console"].update(settings)
        rig.write_config()
        rig.start("console")
        return rig

    def status(self, rig, what):
        with open(f"/proc/{rig['console'].pid}/status") as f:
            return next(int(x.split()[1]) for x in f if x.startswith(what))

    def rise(self, rig):
        """How much more memory (KiB) it had at once since `before` was set."""
        return self.status(rig, "VmHWM") - self.before

    def connect(self, port):
        s = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.addCleanup(s.close)
        return s

    def crowd(self, port, count, say=b"", small=False):
        """So many connections; each that is closed meanwhile does not matter."""
        all_of_them = []
        for _ in range(count):
            s = socket.socket()
            self.addCleanup(s.close)
            if small:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            s.settimeout(30)
            s.connect(("127.0.0.1", port))
            with contextlib.suppress(OSError):
                s.sendall(say)
            all_of_them.append(s)
        return all_of_them


class Http(Strangers):
    def test_connections_that_say_nothing_keep_nobody_out(self):
        rig = self.console()
        for say in (b"", b"GET /met", b"GET /metrics HTTP/1.1\r\nHost: local"):
            with self.subTest(say):
                self.crowd(rig.console_port, 100, say)
                self.assertEqual(rig.console_page("/healthz")[0], 200)
        rig["console"].stop(5)

    def test_nor_do_those_that_read_nothing(self):
        rig = self.console()
        ask = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
        self.before = self.status(rig, "VmRSS")
        self.crowd(rig.console_port, 200, ask * 50, small=True)
        self.assertEqual(rig.console_page("/healthz")[0], 200)
        self.assertLess(self.rise(rig), 64 * 1024)
        rig["console"].stop(5)

    def page(self, rig, *hosts, version="1.1"):
        with self.connect(rig.console_port) as s:
            s.sendall((f"GET /metrics HTTP/{version}\r\nConnection: close\r\n"
                       + "".join(f"Host: {h}\r\n" for h in hosts)
                       + "\r\n").encode())
            text = b"".join(iter(lambda: s.recv(65536), b""))
        return int(text.split()[1]), text

    def test_host_names_that_are_not_ours(self):
        """DNS rebinding: a page of evil.example whose name comes to mean our
        address sends its own name in Host."""
        rig = self.console(hosts=["metrics.example", "Other.Example"])
        port = rig.console_port
        for host in ("localhost", f"localhost:{port}", "LOCALHOST.",
                     "127.0.0.1", f"127.0.0.1:{port}", "127.8.8.8", "[::1]",
                     f"[::1]:{port}", "10.1.2.3:80", "metrics.example",
                     "METRICS.example:443", "other.example."):
            with self.subTest(host):
                self.assertEqual(self.page(rig, host)[0], 200)
        for host in ("evil.example", f"evil.example:{port}", "",
                     "localhost.evil.example", "127.0.0.1.evil.example",
                     "[::1", "[::1]x", "::1", "1.2.3", "0x7f000001", "127.1",
                     "localhost:80@evil.example", "x.metrics.example", "*"):
            with self.subTest(host):
                status, text = self.page(rig, host)
                self.assertEqual(status, 421, text)
                self.assertIn(b"console.hosts", text)
                self.assertNotIn(b"grapnel_up", text)
        self.assertEqual(self.page(rig, "localhost", "evil.example")[0], 400)
        self.assertEqual(self.page(rig)[0], 400)
        self.assertEqual(self.page(rig, version="1.0")[0], 200)


if __name__ == "__main__":
    main(3)
