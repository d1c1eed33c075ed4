"""console.tls: the console over HTTPS: a renewed certificate, wrong files, and clients that misbehave in
or before the handshake."""

import http.client
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from rig import RigTest, SLOW, main, wait_for

TOKEN = "an-admin-token-of-the-file"


def certificate(folder, name, kind="ec", cn="console.example"):
    """Writes name.pem and name.key."""
    how = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"] if kind == "ec" \
        else ["-newkey", "rsa:2048"]
    subprocess.run(
        ["openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", f"/CN={cn}", *how,
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.pem"],
        check=True, capture_output=True)


class Tls(RigTest):
    def tls_rig(self, start=True, **how):
        rig = self.rig({"console": {"tokens": [TOKEN]}}, console=True, **how)
        certificate(rig.folder, "console")
        rig.config["console"]["tls"] = {"certificate": "file:console.pem",
                                        "key": "file:console.key"}
        rig.write_config()
        rig.console_is_open = lambda: self.is_served(rig, "console")
        if start:
            rig.start(*(["console"] if how.get("deliverers") == 0 else []))
        return rig

    def grapnel(self, rig, *args):
        """(what it printed, exit code)"""
        done = rig.cli_text(*args)
        return done.stdout + done.stderr, done.returncode

    def context(self, rig, name="console"):
        return ssl.create_default_context(cafile=rig.folder / f"{name}.pem")

    def connect(self, rig, name="console"):
        c = http.client.HTTPSConnection("127.0.0.1", rig.console_port, timeout=20 * SLOW,
                                        context=self.context(rig, name))
        self.addCleanup(c.close)
        return c

    def get(self, c, path, token=TOKEN, method="GET", body=None):
        c.request(method, path, body, {"Authorization": f"Bearer {token}", **(
            {"Content-Type": "application/json"} if body else {})})
        response = c.getresponse()
        return response.status, response.read()

    def plain(self, rig, says=b""):
        s = socket.create_connection(("127.0.0.1", rig.console_port), timeout=20 * SLOW)
        self.addCleanup(s.close)
        s.sendall(says)
        return s

    def test_everything_is_served_over_https_and_only_there(self):
        rig = self.tls_rig()
        event = rig.accept()
        rig.wait_status(event)
        c = self.connect(rig)
        self.assertEqual(self.get(c, "/healthz")[0], 200)
        self.assertIn(b"grapnel_up", self.get(c, "/metrics")[1])
        self.assertEqual(self.get(c, f"/api/v1/events/{event}/payload")[0], 200)
        self.assertEqual(self.get(c, "/api/v1/endpoints/crm/pause", method="POST",
                                  body="{}")[0], 200)
        for _ in range(20):
            self.assertEqual(self.get(c, "/api/v1/events?limit=1000")[0], 200)
        # many large responses at once: what one connection reads late does not stop others
        many = [self.connect(rig) for _ in range(20)]
        for c in many:
            c.request("GET", "/metrics")
        self.assertEqual({c.getresponse().status for c in many}, {200})
        self.assertEqual(self.plain(rig, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                         .recv(100)[:5] == b"HTTP/", False)
        old = self.context(rig)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            old.minimum_version = ssl.TLSVersion.TLSv1
            old.maximum_version = ssl.TLSVersion.TLSv1_1
        old.set_ciphers("ALL:@SECLEVEL=0")
        with self.assertRaises(ssl.SSLError):
            old.wrap_socket(self.plain(rig), server_hostname="localhost")

    def test_a_reload_takes_a_renewed_certificate_and_ends_no_connection(self):
        rig = self.tls_rig()
        open_one = self.connect(rig)
        self.assertEqual(self.get(open_one, "/healthz")[0], 200)
        certificate(rig.folder, "new", "rsa")
        for kind in ("pem", "key"):
            (rig.folder / f"console.{kind}").write_bytes(
                (rig.folder / f"new.{kind}").read_bytes())
        rig["console"].signal(signal.SIGHUP)
        wait_for(lambda: self.is_served(rig, "new"))
        self.assertEqual(self.get(open_one, "/healthz")[0], 200)
        # A key that belongs to another certificate: the old pair stays.
        certificate(rig.folder, "third")
        (rig.folder / "console.key").write_bytes((rig.folder / "third.key").read_bytes())
        text, code = self.grapnel(rig, "reload")
        self.assertEqual(code, 78)
        self.assertIn("console.tls.key: is not the private key of this certificate", text)
        self.assertTrue(self.is_served(rig, "new"))
        # For HTTP again the console has to start anew, and says so.
        del rig.config["console"]["tls"]
        rig.write_config()
        text, _ = self.grapnel(rig, "reload")
        self.assertIn("console.tls", text)
        self.assertIn("restart", text)
        self.assertTrue(self.is_served(rig, "new"))

    def is_served(self, rig, name):
        try:
            return self.get(self.connect(rig, name), "/healthz")[0] == 200
        except OSError:
            return False

    def test_wrong_files_are_named_before_the_start(self):
        rig = self.tls_rig(start=False, deliverers=0)
        certificate(rig.folder, "other")
        pem, key = rig.folder / "console.pem", rig.folder / "console.key"
        good = pem.read_bytes(), key.read_bytes()
        for change, expected in [
                (key.unlink, "console.tls.key: cannot read "),
                (lambda: key.write_bytes((rig.folder / "other.key").read_bytes()),
                 "console.tls.key: is not the private key of this certificate"),
                (lambda: key.write_bytes(good[0]), "console.tls.key: is not a private key"),
                (lambda: pem.write_bytes(b"-----BEGIN CERTIFICATE-----\nQUJD\n"
                                         b"-----END CERTIFICATE-----\n"),
                 "console.tls.certificate: is not a certificate")]:
            with self.subTest(expected):
                pem.write_bytes(good[0])
                key.write_bytes(good[1])
                change()
                text, code = self.grapnel(rig, "check")
                self.assertNotEqual(code, 0)
                self.assertIn(expected, text)
                rig["console"].spawn()
                self.assertEqual(rig["console"].wait_exit(), 78)
                self.assertIn(expected, rig["console"].log())
        pem.write_bytes(good[0])
        key.write_bytes(good[1])
        del rig.config["console"]["tls"]["key"]
        rig.write_config()
        self.assertIn("has only one of certificate and key", self.grapnel(rig, "check")[0])

    def test_clients_that_misbehave_in_the_handshake_do_not_keep_others_out(self):
        rig = self.tls_rig(deliverers=0)
        hello = self.hello()
        for says in (b"", b"GET / HTTP/1.1\r\n", b"\x16\x03\x01\x02\x00", hello[:40], hello,
                     b"\x16\x03\x01\xff\xff" + b"\1" * 70000, b"\0" * 1000,
                     b"\x15\x03\x01\x00\x02\x02\x28"):
            with self.subTest(says[:20]):
                crowd = [self.crowd_member(rig, says) for _ in range(350)]
                self.assertTrue(self.is_served(rig, "console"))
                for s in crowd:
                    s.close()
        rig["console"].stop(5)

    def crowd_member(self, rig, says):
        s = socket.create_connection(("127.0.0.1", rig.console_port), timeout=20 * SLOW)
        try:
            s.sendall(says)
        except OSError:
            pass
        return s

    def hello(self):
        """The first message of a client."""
        out = ssl.MemoryBIO()
        c = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), out,
                                                  server_hostname="localhost")
        try:
            c.do_handshake()
        except ssl.SSLWantReadError:
            pass
        return out.read()

    def test_a_response_reaches_a_client_that_reads_slowly(self):
        rig = self.tls_rig()
        for _ in range(50):
            rig.accept()
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        s.settimeout(20 * SLOW)
        s.connect(("127.0.0.1", rig.console_port))
        t = self.context(rig).wrap_socket(s, server_hostname="localhost")
        self.addCleanup(t.close)
        t.sendall(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        text = b""
        while more := t.recv(500):
            text += more
            self.assertLess(len(text), 10_000_000)
        head, _, body = text.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split()[0])
        self.assertEqual(len(body), length)


if __name__ == "__main__":
    main(at_once=3)
