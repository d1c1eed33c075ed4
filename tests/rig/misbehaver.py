"""An endpoint that breaks the rules: raw sockets, TLS or not, a thread for each
connection, and a function that does what it likes with it. For what
rig-receiver, which is a good server, can't do.

    def half(c):
        c.request()
        c.send(b"HTTP/1.1 200 OK\\r\\nContent-")

    with Misbehaver(half) as m:
        … m.url("/x") … m.requests …
"""

import datetime
import os
import pathlib
import socket
import ssl
import struct
import subprocess
import threading


class Connection:
    """One accepted connection; `number` from 1, in the order of accepting."""

    def __init__(self, owner, sock, number):
        self.owner, self.sock, self.number = owner, sock, number
        self.buffer = b""

    def read(self):
        some = self.sock.recv(65536)
        if not some:
            raise EOFError
        self.buffer += some

    def take(self, n):
        while len(self.buffer) < n:
            self.read()
        out, self.buffer = self.buffer[:n], self.buffer[n:]
        return out

    def head(self):
        """Read until the head of a request is there; it stays in the buffer."""
        while b"\r\n\r\n" not in self.buffer:
            self.read()

    def request(self):
        """Read one HTTP/1.1 request, whole; (head, body)."""
        self.head()
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        headers = {k.lower(): v.strip() for k, _, v in
                   (line.partition(":") for line in lines[1:])}
        body = self.take(int(headers.get("content-length", 0)))
        with self.owner.lock:
            self.owner.requests.append(
                Request(self.number, lines[0], headers, body))
            self.owner.lock.notify_all()
        return self.owner.requests[-1]

    def send(self, data):
        self.sock.sendall(data)

    def respond(self, status=200, headers="", body=b""):
        self.send(f"HTTP/1.1 {status} Told\r\n{headers}"
                  f"Content-Length: {len(body)}\r\n\r\n".encode() + body)

    def reset(self):
        """RST instead of FIN."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                             struct.pack("ii", 1, 0))
        self.sock.close()

    def until_closed(self):
        while self.sock.recv(65536):
            pass


class Request:
    def __init__(self, connection, line, headers, body):
        self.connection, self.line = connection, line
        self.headers, self.body = headers, body

    @property
    def id(self):
        return self.headers.get("webhook-id")


class Misbehaver:
    def __init__(self, behave, host="127.0.0.1", tls=None, backlog=128):
        """`tls`: an ssl.SSLContext; a handshake that fails ends only its own
        connection, and is counted in `failed_handshakes`."""
        self.behave, self.tls, self.host = behave, tls, host
        self.lock = threading.Condition()
        self.requests, self.connections, self.failed_handshakes = [], 0, 0
        self.open = set()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.listener = socket.socket(family, socket.SOCK_STREAM)
        self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.listener.bind((host, 0))
        self.listener.listen(backlog)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def url(self, path="/", name=None):
        host = name or (f"[{self.host}]" if ":" in self.host else self.host)
        return f"http{'s' if self.tls else ''}://{host}:{self.port}{path}"

    def accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self.serve, daemon=True,
                             args=(sock, self.connections)).start()

    def serve(self, sock, number):
        self.open.add(sock)
        try:
            sock.settimeout(60)
            if self.tls:
                sock = self.tls.wrap_socket(sock, server_side=True)
            self.behave(Connection(self, sock, number))
        except ssl.SSLError:
            self.failed_handshakes += 1
        except (OSError, EOFError):
            pass
        finally:
            self.open.discard(sock)
            sock.close()

    def wait(self, count, timeout=20):
        """The requests, when there are so many."""
        with self.lock:
            assert self.lock.wait_for(lambda: len(self.requests) >= count,
                                      timeout), \
                f"{len(self.requests)} requests, {count} wanted"
            return list(self.requests)

    def close(self):
        # shutdown() wakes accept(), close() alone does not.
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.listener.close()
        for sock in list(self.open):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.thread.join(5)


# ---- certificates ----

class Authority:
    """A certificate authority in a folder, made with openssl."""

    def __init__(self, folder, name="ca"):
        self.folder, self.name = pathlib.Path(folder), name
        self.folder.mkdir(exist_ok=True)
        self.openssl("req", "-x509", *self.new(name), "-days", "2",
                     "-subj", f"/CN=rig {name}",
                     "-addext", "keyUsage=critical,keyCertSign",
                     "-out", self.file(f"{name}.pem"))

    def file(self, name):
        return str(self.folder / name)

    def new(self, name):
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-nodes", "-keyout", self.file(f"{name}.key"))

    def openssl(self, *words):
        subprocess.run(["openssl", *words], check=True, capture_output=True)

    def issue(self, name, subject="localhost", days=2):
        """(certificate, key): files. Negative `days`: it has expired already."""
        san = "IP:127.0.0.1" if subject == "127.0.0.1" else f"DNS:{subject}"
        (self.folder / f"{name}.ext").write_text(f"subjectAltName={san}\n")
        self.openssl("req", "-new", *self.new(name), "-subj",
                     f"/CN={subject}", "-out", self.file(f"{name}.csr"))
        now = datetime.datetime.now(datetime.timezone.utc)
        end = now + datetime.timedelta(days=days)
        start = min(now, end) - datetime.timedelta(days=1)
        self.sign(name, start, end)
        return self.file(f"{name}.pem"), self.file(f"{name}.key")

    def sign(self, name, start, end):
        """By `openssl ca`: only it can date a certificate back."""
        (self.folder / "index.txt").write_text("")
        (self.folder / "serial").write_text(f"{os.urandom(8).hex()}\n")
        (self.folder / "ca.conf").write_text(
            "[ca]\ndefault_ca=rig\n[rig]\n"
            f"dir={self.folder}\ndatabase=$dir/index.txt\n"
            "serial=$dir/serial\nnew_certs_dir=$dir\ndefault_md=sha256\n"
            "policy=any\n[any]\ncommonName=supplied\n")
        stamp = "%y%m%d%H%M%SZ"
        self.openssl("ca", "-batch", "-config", self.file("ca.conf"),
                     "-cert", self.file(f"{self.name}.pem"),
                     "-keyfile", self.file(f"{self.name}.key"),
                     "-in", self.file(f"{name}.csr"),
                     "-extfile", self.file(f"{name}.ext"),
                     "-startdate", start.strftime(stamp),
                     "-enddate", end.strftime(stamp),
                     "-notext", "-out", self.file(f"{name}.pem"))

    def pem(self):
        return (self.folder / f"{self.name}.pem").read_bytes()

    def server(self, name, subject="localhost", days=2, ask=False, alpn=None):
        """An ssl context with a fresh certificate. `ask`: for one of ours."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*self.issue(name, subject, days))
        if ask:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self.file(f"{self.name}.pem"))
        if alpn:
            context.set_alpn_protocols(alpn)
        return context


# ---- HTTP/2, as much as answering takes ----

def http2(c, leave=None):
    """Responds to every request with 200. Headers are not looked into: the response
    needs no more than the number of its stream. `leave`: it says GOAWAY to the
    first request, having taken streams up to this one, and closes."""
    def frame(kind, flags, stream, payload=b""):
        c.send(len(payload).to_bytes(3, "big") + bytes([kind, flags])
               + stream.to_bytes(4, "big") + payload)

    if c.sock.selected_alpn_protocol() != "h2":
        c.request()
        c.respond(505)
        return
    assert c.take(24) == b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    frame(4, 0, 0)  # settings
    while True:
        size, kind = int.from_bytes(c.take(3), "big"), c.take(1)[0]
        flags, stream = c.take(1)[0], int.from_bytes(c.take(4), "big")
        c.take(size)
        if kind == 4 and not flags & 1:
            frame(4, 1, 0)
        elif kind in (0, 1) and flags & 1:  # the request's end
            with c.owner.lock:
                c.owner.requests.append(
                    Request(c.number, f"stream {stream}", {}, b""))
                c.owner.lock.notify_all()
            if leave is not None:
                frame(7, 0, 0, leave.to_bytes(4, "big") + bytes(4))
                return
            frame(1, 5, stream, b"\x88")  # :status 200, and its end
        elif kind == 6 and not flags & 1:
            frame(6, 1, 0, bytes(8))
