"""The rig: a whole pipeline of real processes in a folder of its own.

    import pathlib, sys
    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
    from rig import RigTest, main

    class Retry(RigTest):
        def test_a_503_is_retried_until_it_is_a_200(self):
            rig = self.rig()
            rig.receiver.rules({"path": "/crm", "per": "event", "responses": [
                {"status": 503, "times": 2}, {"status": 200}]})
            rig.start()
            event = rig.accept(rig.plane_body("ws-1"))
            rig.receiver.wait(event, count=3)

    main()

A test waits on facts, never on time: wait_for() polls until something is so.
When it fails, the logs of every process are printed. When it ends, each daemon
must stop with 0 at a SIGTERM, no process may be left, and no log may hold a
sanitizer's finding. Build folder: $GRAPNEL_BUILD, else build/dev.
$GRAPNEL_KEEP=1 keeps the folders of tests.
"""

import base64
import contextlib
import ctypes
import fcntl
import hashlib
import hmac
import http.client
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
import uuid

import yaml
import zmq

import checker

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("GRAPNEL_BUILD", ROOT / "build" / "dev"))
PLANE_SECRET = "plane_wh_rig"
SIGNING_SECRET = "whsec_" + base64.b64encode(b"the rig's signing secret").decode()
FINDINGS = re.compile(
    r"(ERROR|WARNING): (Address|Leak|Thread|Memory)Sanitizer|: runtime error: "
    r"|Assertion .* failed")
SLOW = 5 if "san" in BUILD.name else 1  # what the sanitizers cost


def wait_for(fact, timeout=15, what=None):
    """The first truthy value of fact(), asked until `timeout` seconds have expired."""
    end = time.monotonic() + timeout * SLOW
    pause = 0.002
    while True:
        value = fact()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(
                f"waited {timeout * SLOW} s in vain for {what or fact}; "
                f"last: {value!r}")
        time.sleep(pause)
        pause = min(2 * pause, 0.05)


def program(name):
    for folder in ("bin", "tests/rig", "."):
        path = BUILD / folder / name
        if path.exists():
            return str(path)
    raise FileNotFoundError(f"{name} is not in {BUILD}; build it first")


def processes_of(folder):
    """Command lines of the processes that know this folder, except this one."""
    found = []
    # Not glob("[0-9]*/cmdline"): it raises when a process ends meanwhile.
    for pid in os.listdir("/proc"):
        if not pid.isdigit() or int(pid) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            words = pathlib.Path("/proc", pid, "cmdline").read_bytes().replace(
                b"\0", b" ").decode(errors="replace")
            if str(folder) in words:
                found.append(f"{pid} {words}")
    return found


class Ports:
    """Ports below the ephemeral ones, so that no outgoing connection takes one
    between our look and the daemon's bind; a lock file each, so that two tests
    at once do not take the same."""

    def __init__(self):
        self.locks = []
        self.folder = pathlib.Path(
            tempfile.gettempdir(), f"grapnel-ports-{os.getuid()}")
        self.folder.mkdir(mode=0o700, exist_ok=True)

    def take(self):
        for port in random.sample(range(20000, 32000), 2000):
            lock = open(self.folder / str(port), "w")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                with socket.socket() as s:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    s.bind(("127.0.0.1", port))
            except OSError:
                lock.close()
                continue
            self.locks.append(lock)
            return port
        raise OSError("no port is free")

    def close(self):
        for lock in self.locks:
            lock.close()


def die_with_parent():
    """In a child: if the test is killed, so are its daemons."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def start_as_supervised():
    """In a child, like packaging's supervisor: a SIGHUP waits until the program
    is loaded. The kernel would end the process before its first instruction."""
    die_with_parent()
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])


class Process:
    """A program of the rig with its log. Also tells an expected end from one
    that nobody asked for."""

    prepare_child = staticmethod(die_with_parent)

    def __init__(self, rig, name, command):
        self.rig, self.name, self.command = rig, name, command
        self.log_path = rig.folder / f"{name}.log"
        self.child = None
        self.asked_to_end = True
        self.paused = False

    def spawn(self, env=None, stdout=None):
        assert not self.alive, f"{self.name} runs already"
        with open(self.log_path, "ab") as log:
            self.child = subprocess.Popen(
                self.command, cwd=self.rig.folder, stdin=subprocess.DEVNULL,
                stdout=stdout or log, stderr=log, preexec_fn=self.prepare_child,
                env={**os.environ, **self.rig.env, **(env or {})})
        self.asked_to_end = self.paused = False
        return self

    @property
    def pid(self):
        return self.child.pid

    @property
    def alive(self):
        return self.child is not None and self.child.poll() is None

    @property
    def exit_code(self):
        return self.child.poll()

    def log(self):
        return self.log_path.read_text(errors="replace") \
            if self.log_path.exists() else ""

    def signal(self, signo):
        self.child.send_signal(signo)

    def kill(self):
        """kill -9. Nothing is left of it when this returns."""
        self.asked_to_end = True
        if self.alive:
            self.child.kill()
            self.child.wait()

    def pause(self):
        self.signal(signal.SIGSTOP)
        self.paused = True

    def resume(self):
        self.signal(signal.SIGCONT)
        self.paused = False

    def wait_exit(self, timeout=30):
        """Its exit code, when it ends by itself."""
        self.asked_to_end = True
        return self.child.wait(timeout * SLOW)

    def stop(self, timeout=30):
        """SIGTERM; returns the exit code."""
        self.asked_to_end = True
        if not self.alive:
            return self.exit_code
        # It may have been paused. Not after the SIGTERM: LeakSanitizer stops
        # the process as it ends, and a SIGCONT in that moment hangs it.
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            return self.child.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(
                f"{self.name} did not stop within {timeout * SLOW} s of a SIGTERM")


class Daemon(Process):
    prepare_child = staticmethod(start_as_supervised)

    def __init__(self, rig, name):
        super().__init__(rig, name, None)
        self.program = None  # the path of another version of it

    def spawn(self, env=None, stdout=None):
        self.command = [self.program or
                        program(f"grapnel-{self.name.split('-')[0]}"),
                        "-c", str(self.rig.config_path), "-n", self.name]
        return super().spawn(env, stdout)

    def responds(self):
        """Its control socket is bound by a process that is there."""
        with socket.socket(socket.AF_UNIX) as s:
            try:
                s.connect(str(self.rig.run_dir / f"{self.name}.control"))
                return True
            except OSError:
                return False

    def up(self):
        if not self.alive:
            raise AssertionError(
                f"{self.name} ended with {self.exit_code}:\n{self.log()[-2000:]}")
        return self.serves()

    def settled(self):
        """It is up, or it has ended: for a start that may fail."""
        return self.serves() or not self.alive

    def serves(self):
        if not self.responds():
            return False
        if self.name == "console":
            return self.rig.console_is_open()
        return self.name.split("-")[0] != "ingress" or self.rig.ingress_is_ready()

    def start(self, wait=True, env=None):
        self.spawn(env)
        if wait:
            wait_for(self.up, what=f"{self.name} to be up")
        return self

    def restart(self, wait=True):
        self.kill()
        return self.start(wait)

    def reload(self):
        self.signal(signal.SIGHUP)


class Received:
    """One request as the receiver wrote it down."""

    def __init__(self, line):
        record = json.loads(line)
        self.n = record["n"]
        self.at_ms = record["at_ms"]
        self.connection = record["connection"]
        self.method = record["method"]
        self.path = record["path"]
        self.header_list = [tuple(pair) for pair in record["headers"]]
        self.headers = {k.lower(): v for k, v in self.header_list}
        self.body = base64.b64decode(record["body"])
        self.status = record["status"]
        self.action = record.get("action")
        self.sender = record.get("from")  # its address
        self.ended_ms = None  # when it was responded to, or its connection ended

    @property
    def id(self):
        return self.headers.get("webhook-id")

    @property
    def delivered(self):
        return self.status is not None and 200 <= self.status < 300

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return (f"<{self.n} {self.method} {self.path} {self.id} "
                f"{self.status or self.action} at {self.at_ms}>")


class Receiver(Process):
    """rig-receiver: does as it is told (tests/rig/rules.h), records all. It listens on `address`; `options` are further
    ones of its command line."""

    def __init__(self, rig, name="receiver", address="127.0.0.1", options=()):
        self.record_path = rig.folder / f"{name}.jsonl"
        self.address, self.port = address, rig.ports.take()
        super().__init__(rig, name, [
            program("rig-receiver"), "--address", address, "--port", str(self.port),
            "--keep", "0", "--record", str(self.record_path), *options])
        self.offset, self.seen = 0, []

    def start(self):
        self.spawn(stdout=subprocess.PIPE)
        with self.child.stdout as out:
            port = out.readline()  # it is ready when it says so
        assert int(port) == self.port, f"receiver: {self.log()}"
        return self

    def url(self, path):
        return f"http://{self.address}:{self.port}{path}"

    def ask(self, method, path, body=None):
        status, _, response = http_request(self.port, method, path, body,
                                           address=self.address)
        assert status == 200, f"{path}: {status} {response}"
        return json.loads(response)

    def rules(self, *rules):
        self.ask("POST", "/_rig/rules", json.dumps(rules).encode())

    def release(self):
        """Send all responses that are delayed by `delay_ms` now."""
        self.ask("POST", "/_rig/release", b"")

    def reset(self):
        self.ask("POST", "/_rig/reset", b"")

    def stats(self):
        return self.ask("GET", "/_rig/stats")

    def requests(self, path=None, event=None):
        """All requests so far, in the order of their coming."""
        if self.record_path.exists():
            with open(self.record_path, "rb") as record:
                record.seek(self.offset)
                for line in record:
                    if not line.endswith(b"\n"):
                        break
                    self.offset += len(line)
                    if line.startswith(b'{"ended"'):
                        end = json.loads(line)
                        self.seen[end["ended"] - 1].ended_ms = end["at_ms"]
                    else:
                        self.seen.append(Received(line))
        return [r for r in self.seen if (path is None or r.path == path)
                and (event is None or r.id == event)]

    def wait(self, event=None, count=1, path=None, timeout=15):
        """Wait for `count` requests (of one event, on one path); returns them."""
        wait_for(lambda: len(self.requests(path, event)) >= count, timeout,
                 f"{count} requests of {event or 'any event'} "
                 f"at {path or 'any path'}")
        return self.requests(path, event)

    def delivered(self, path=None):
        """{event id: first request of it that got 2xx}"""
        first = {}
        for request in self.requests(path):
            if request.delivered:
                first.setdefault(request.id, request)
        return first


class Load(Process):
    """rig-load, with its acknowledgements. sent(), acks() and result() may be
    asked while it runs and after."""

    def __init__(self, rig, name, options):
        self.acks_path = rig.folder / f"{name}.acks"
        self.summary_path = rig.folder / f"{name}.json"
        command = [program("rig-load"), "--json", "--acks", str(self.acks_path)]
        for key, value in options.items():
            command += [f"--{key.replace('_', '-')}", str(value)]
        super().__init__(rig, name, command)

    def start(self):
        with open(self.summary_path, "wb") as out:
            return self.spawn(stdout=out)

    def acks(self):
        if not self.acks_path.exists():
            return []
        with open(self.acks_path, "rb") as log:
            return [json.loads(line) for line in log if line.endswith(b"\n")]

    def result(self, timeout=300):
        """Waits for its end; the summary."""
        code = self.wait_exit(timeout)
        assert code == 0, f"{self.name} ended with {code}: {self.log()}"
        return json.loads(self.summary_path.read_text())


def http_request(port, method, path, body=None, headers=None, timeout=30,
                 address="127.0.0.1"):
    connection = http.client.HTTPConnection(address, port, timeout=timeout)
    with contextlib.closing(connection):
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read()


def sign_plane(body, secret=PLANE_SECRET):
    """The headers that Plane sends with this body."""
    return {
        "Content-Type": "application/json",
        "X-Plane-Event": json.loads(body)["event"],
        "X-Plane-Delivery": str(uuid.uuid4()),
        "X-Plane-Signature":
            hmac.new(secret.encode(), body, hashlib.sha256).hexdigest(),
    }


def is_signed(request, secret=SIGNING_SECRET):
    """Does a received request carry a good Standard Webhooks signature?"""
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = b".".join([request.headers["webhook-id"].encode(),
                        request.headers["webhook-timestamp"].encode(),
                        request.body])
    want = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
    return f"v1,{want.decode()}" in request.headers["webhook-signature"].split()


def write_clock(path, by_s):
    """The wall clock of programs with rig-clock.so that look here is off by so many seconds."""
    with open(path, "r+b" if path.exists() else "w+b", buffering=0) as clock:
        clock.write(int(by_s * 1e9).to_bytes(8, "little", signed=True))


def merged(base, change):
    """`change` laid over `base`: maps are merged, all else is replaced, None
    takes a key away."""
    if not isinstance(base, dict) or not isinstance(change, dict):
        return change
    both = {**base, **{k: merged(base.get(k), v) for k, v in change.items()}}
    return {k: v for k, v in both.items() if v is not None}


class Rig:
    """A pipeline, stopped. `config` is laid over a default with one source,
    `plane`, and one endpoint, `crm`, which is the receiver's /crm, with retries
    in milliseconds. `rig.config` may be changed before start() and, with
    write_config() and reload(), after."""

    def __init__(self, config=None, deliverers=1, console=False, ingress=True):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gr-"))
        self.run_dir = self.folder / "run"
        self.state_dir = self.folder / "state"
        self.config_path = self.folder / "grapnel.yaml"
        self.ports = Ports()
        self.ingress_port = self.ports.take()
        self.env = {"PLANE_SECRET": PLANE_SECRET}
        self.receiver = self.make_receiver().start()
        self.others = [self.receiver]  # receivers and loads
        self.daemons = {}
        self.unique = 0
        self.config = merged(self.default_config(), config or {})
        self.write_config()
        for name in [*(["ingress"] if ingress else []), "sequencer", "dlqd"]:
            self.add(name)
        for i in range(deliverers):
            self.add(f"deliverer-{i + 1}")
        if console:
            self.add_console()

    def make_receiver(self):
        return Receiver(self)

    def default_config(self):
        return {
            "state_dir": "state",
            "run_dir": "run",
            "shutdown_grace": "5s",
            "ingress": {"listen": f"127.0.0.1:{self.ingress_port}"},
            "sources": [{"name": "plane", "provider": "plane",
                         "secrets": ["${PLANE_SECRET}"]}],
            "endpoints": [self.endpoint("crm")],
            "retry_policies": [{
                "name": "default", "backoff": "exponential",
                "first_wait": "20ms", "factor": 2, "max_wait": "200ms",
                "jitter": "full", "max_attempts": 12, "max_duration": "1h",
                "retry_on": ["network", 408, 425, 429, "5xx"],
                "respect_retry_after": True}],
        }

    def endpoint(self, name, **more):
        """An endpoint whose URL is the receiver's /name."""
        return {"name": name, "url": self.receiver.url(f"/{name}"),
                "allow_private": True, "signing_secrets": [SIGNING_SECRET],
                **more}

    def write_config(self, text=None):
        self.config_path.write_text(
            text or yaml.safe_dump(self.config, sort_keys=False))

    def step_clock(self, by_s):
        """From now on the wall clock is off by so many seconds, for all that is
        started behind the first call of this."""
        path = self.folder / "clock"
        if not path.exists():
            self.env.update({
                "RIG_CLOCK": str(path), "LD_PRELOAD": program("rig-clock.so"),
                # The sanitizer's library asks to be first, which is not needed.
                "ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "")
                + ":verify_asan_link_order=0"})
        write_clock(path, by_s)

    # processes

    def add(self, name):
        """A daemon of this name, not started."""
        self.daemons[name] = Daemon(self, name)
        return self.daemons[name]

    def add_console(self):
        """grapnel-console, not started; numbers every 100 ms, rules judged as
        often."""
        self.console_port, publish = self.ports.take(), self.ports.take()
        self.publish = f"tcp://127.0.0.1:{publish}"
        self.config = merged({
            "metrics": {"interval": "100ms", "publish": self.publish},
            "console": {"listen": f"127.0.0.1:{self.console_port}",
                        "evaluate": "100ms"}}, self.config)
        self.write_config()
        return self.add("console")

    def console_page(self, path, token=None):
        """(status, text) of a GET at the console."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        status, _, text = http_request(self.console_port, "GET", path,
                                       headers=headers)
        return status, text.decode()

    def console_is_open(self):
        with contextlib.suppress(OSError):
            return self.console_page("/healthz")[0] == 200
        return False

    def number(self, name, **labels):
        """The sum of a metric's samples that have these labels, from /metrics;
        None: there are none."""
        found = [float(line.rsplit(" ", 1)[1])
                 for line in self.console_page("/metrics")[1].splitlines()
                 if re.match(rf"{name}[{{ ]", line) and
                 all(f'{k}="{v}"' in line for k, v in labels.items())]
        return sum(found) if found else None

    def __getitem__(self, name):
        return self.daemons[name]

    def names(self):
        """Of the processes."""
        return list(self.daemons)

    @property
    def deliverers(self):
        return [d for n, d in self.daemons.items() if n.startswith("deliverer")]

    start_s = 15  # more for databases that are not in memory yet

    def start(self, *names):
        """Start the named daemons (all that don't run) and wait for each."""
        asked = [self.daemons[n] for n in names or self.daemons]
        started = [d.start(wait=False) for d in asked if not d.alive]
        for daemon in started:
            wait_for(daemon.up, self.start_s, f"{daemon.name} to be up")
        return self

    def kill(self, *names):
        for name in names or self.daemons:
            self.daemons[name].kill()

    def stop(self):
        """SIGTERM to what runs, in the supervisor's order. {name: exit code}"""
        order = [*(n for n in self.daemons if n.startswith(("ingress", "outbox", "reconcile"))),
                 *(d.name for d in self.deliverers), "sequencer",
                 "dlqd", *self.daemons]
        return {n: self.daemons[n].stop() for n in dict.fromkeys(order)
                if n in self.daemons and self.daemons[n].alive}

    def another_receiver(self, name):
        self.others.append(Receiver(self, name).start())
        return self.others[-1]

    def load(self, **options):
        """Start a load at ingress; options as rig-load's. See Load."""
        options = {"target": self.ingress_url("/in/plane"), "secret": PLANE_SECRET,
                   "connections": 16, **options}
        self.others.append(Load(self, f"load-{len(self.others)}", options))
        return self.others[-1].start()

    # ingress

    def ingress_url(self, path):
        return f"http://127.0.0.1:{self.ingress_port}{path}"

    def ingress_is_ready(self):
        with contextlib.suppress(OSError):
            return http_request(self.ingress_port, "GET", "/readyz")[0] == 200
        return False

    def plane_body(self, workspace="ws-1", action="update", event="issue",
                   **data):
        """A Plane event as bytes, unlike every other of this rig."""
        self.unique += 1
        return json.dumps({
            "event": event, "action": action, "webhook_id": str(uuid.uuid4()),
            "workspace_id": workspace,
            "data": {"id": str(uuid.uuid4()), "n": self.unique, **data},
            "activity": {"field": "state", "actor": {"id": "rig"}},
        }).encode()

    def post(self, body, source="plane", headers=None, path=None):
        """(status, headers, body as JSON or bytes) of a request to ingress,
        signed as Plane's unless it brings headers."""
        status, answered, response = http_request(
            self.ingress_port, "POST", path or f"/in/{source}", body,
            sign_plane(body) if headers is None else headers)
        with contextlib.suppress(ValueError):
            response = json.loads(response)
        return status, answered, response

    def accept(self, body=None, **how):
        """Post what must be accepted; the event's id."""
        status, _, response = self.post(body or self.plane_body(), **how)
        assert status == 200, f"ingress said {status} {response}"
        return response["id"]

    # questions

    def cli(self, *args, timeout=60, env=None):
        """(what `grapnel ARGS --json` printed, parsed, or None; exit code)"""
        done = self.cli_text(*args, "--json", timeout=timeout, env=env)
        return (json.loads(done.stdout) if done.stdout.strip() else None,
                done.returncode)

    def cli_text(self, *args, timeout=60, env=None, stdin=None):
        """The finished process: stdout, stderr, returncode."""
        command, *rest = args
        return self.run(program("grapnel"), command, "-c", self.config_path,
                        *rest, timeout=timeout, env=env, stdin=stdin)

    def run(self, *command, timeout=60, env=None, stdin=None):
        """Another program in the rig's folder: the finished process."""
        done = subprocess.run(
            [*map(str, command)],
            cwd=self.folder, env={**os.environ, **self.env, **(env or {})},
            input=stdin, capture_output=True, text=True,
            timeout=timeout * SLOW)
        assert not FINDINGS.search(done.stderr), done.stderr
        return done

    def trace(self, event):
        document, code = self.cli("trace", event)
        assert code == 0, f"grapnel trace {event}: exit {code}, {document}"
        return document

    def sequence(self, event):
        """Its number in its workspace, once the sequencer has it."""
        return wait_for(lambda: self.trace(event).get("sequence"), what=f"a number of {event}")

    def deliveries(self, event):
        """Of its trace; none while only ingress has it."""
        return self.trace(event).get("deliveries", [])

    def wait_status(self, event, status="done", timeout=15):
        """Wait until the event's status is this; its trace."""
        def traced():
            document, code = self.cli("trace", event)
            return code == 0 and document.get("status") == status and document
        return wait_for(traced, timeout, f"{event} to be {status}")

    def home(self, process):
        """Its host, which has a state_dir and a run_dir."""
        return self.daemons[process].rig if process in self.daemons else self

    def database(self, process):
        return self.home(process).state_dir / f"{process}.db"

    def rows(self, process, sql, *args):
        """Rows of a process's database, read only, as dicts."""
        uri = f"file:{self.database(process)}?mode=ro"
        with contextlib.closing(sqlite3.connect(uri, uri=True, timeout=10)) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(sql, args)]

    def change(self, process, sql, *args):
        """Changes rows of a process that is down."""
        assert not self.daemons[process].alive, f"{process} runs"
        with contextlib.closing(sqlite3.connect(self.database(process))) as db, db:
            db.execute(sql, args)

    def forget_dead_letters(self):
        """As if a day had gone by since dlqd has them: the sequencer keeps them
        no longer."""
        self["sequencer"].stop()
        self.change("sequencer", "UPDATE dead_letters SET at_ms = 1")
        self.start("sequencer")
        wait_for(lambda: not self.rows("sequencer", "SELECT 1 FROM dead_letters"),
                 what="the dead letters' rows to go")

    def ask(self, process, question, timeout=10, **args):
        """A control request of our own, past the command line: the reply."""
        context = zmq.Context.instance()
        with context.socket(zmq.REQ) as socket_:
            socket_.linger = 0
            socket_.connect(f"ipc://{self.home(process).run_dir}/{process}.control")
            socket_.send_json({"v": 1, "ask": question, "args": args})
            if not socket_.poll(timeout * SLOW * 1000):
                raise AssertionError(f"{process} does not respond to {question}")
            reply = socket_.recv_json()
        assert reply["ok"], f"{process}: {question}: {reply}"
        return reply["reply"]

    # rest, and judgement

    def unsettled(self):
        """What is still on its way, in words; nothing when all is at rest. In the order in which it moves, as
        it may move on meanwhile."""
        on_way = []

        def ask(sender, receiver):
            if not self.database(sender).exists():
                return
            said = self.rows(sender, "SELECT next - 1 AS n FROM link_out "
                             "WHERE peer = ?", receiver)
            heard = self.rows(receiver, "SELECT n FROM link_in WHERE peer = ?",
                              sender)
            said, heard = (rows[0]["n"] if rows else 0 for rows in (said, heard))
            if heard < said:
                on_way.append(f"{sender} → {receiver}: {said - heard}")

        # What a dead deliverer has to say is not waited for, only its work.
        for sender in [*(n for n in self.names() if n.startswith(("ingress", "outbox", "reconcile"))),
                       *(d.name for d in self.deliverers if d.alive), "dlqd"]:
            ask(sender, "sequencer")
        open_count, = self.rows("sequencer", "SELECT count(*) AS n, min(event) AS event "
                                "FROM deliveries WHERE status < 3")
        if open_count["n"]:
            first = self.rows("sequencer", "SELECT e.id, p.name, d.status FROM deliveries d JOIN events e ON e.n = d.event "
                              "JOIN endpoints p ON p.id = d.endpoint WHERE d.event = ? AND d.status < 3",
                              open_count["event"])
            on_way.append(f"open deliveries: {open_count['n']}, first {first}")
        ask("sequencer", "dlqd")
        return ", ".join(on_way)

    def settle(self, timeout=60):
        """Wait until every process has heard all and every delivery is final;
        then the receivers' records are whole too."""
        last = "?"

        def quiet():
            nonlocal last
            last = self.unsettled()
            return not last
        try:
            wait_for(quiet, timeout)
        except AssertionError:
            raise AssertionError(f"no rest in {timeout * SLOW} s: {last}") from None
        for receiver in self.others:
            if isinstance(receiver, Receiver) and receiver.alive:
                receiver.stats()  # what it holds back is written out
        return self

    def facts(self):
        """(events, deliveries, dead letters) as they are stored; see check_stores."""
        events = self.rows("sequencer", """
            SELECT id, workspace, sequence, CASE status
              WHEN 1 THEN 'duplicate' WHEN 2 THEN 'refused'
              ELSE iif(EXISTS (SELECT 1 FROM deliveries d
                               WHERE d.event = e.n AND d.status < 3),
                       'routed', 'done') END AS status
            FROM events e""")
        deliveries = self.rows("sequencer", """
            SELECT e.id AS event, p.name AS endpoint, CASE d.status
              WHEN 0 THEN 'waiting' WHEN 1 THEN 'in_flight'
              WHEN 2 THEN 'retrying' WHEN 3 THEN 'delivered'
              ELSE 'dead' END AS status
            FROM deliveries d JOIN events e ON e.n = d.event
            JOIN endpoints p ON p.id = d.endpoint""")
        dead_letters = self.rows("dlqd", "SELECT event_id, endpoint, state, reason "
                            "FROM dead_letters")
        return events, deliveries, dead_letters

    def judge(self, *loads, path="/crm", timeout=60, **how):
        """Settle, then have the checker judge these loads. Returns the verdict
        on the requests; see checker.check() for `how`."""
        self.settle(timeout)
        acks = [a for load in loads for a in load.acks()]
        events, deliveries, dead_letters = self.facts()
        checker.check_stores(acks, events, deliveries, dead_letters).require()
        ended = {x["event_id"] for x in dead_letters}
        return checker.check(acks, self.receiver.requests(path), PLANE_SECRET,
                             ended=ended, **how).require()

    # the end

    def problems(self):
        """What is wrong with how the processes fared. Stops all of them."""
        wrong = []
        everyone = [*self.daemons.values(), *self.others]
        for p in everyone:
            if p.child and not p.asked_to_end and not p.alive and p.exit_code:
                wrong.append(f"{p.name} ended by itself with {p.exit_code}")
        try:
            for name, code in self.stop().items():
                if code != 0:
                    wrong.append(f"{name} ended with {code} on SIGTERM")
        except AssertionError as error:
            wrong.append(str(error))
        for p in self.others:
            p.stop()
        for p in everyone:
            if FINDINGS.search(p.log()):
                wrong.append(f"{p.name}: a finding in its log")
        return wrong + [f"left running: {line}" for line in processes_of(self.folder)]

    def dump(self, out=sys.stderr, lines=120):
        for p in [*self.daemons.values(), *self.others]:
            tail = p.log().splitlines()[-lines:]
            if tail:
                print(f"--- {p.name}", *tail, sep="\n", file=out)

    def close(self):
        for p in [*self.daemons.values(), *self.others]:
            p.kill()
        self.ports.close()
        if os.environ.get("GRAPNEL_KEEP"):
            print(f"kept: {self.folder}", file=sys.stderr)
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


class RigTest(unittest.TestCase):
    """A test case whose rigs are judged and taken down at its end."""

    def rig(self, config=None, **how):
        rig = Rig(config, **how)
        self.addCleanup(self._end, rig)
        return rig

    def _failed(self):
        result = self._outcome.result
        return any(getattr(test, "test_case", test) is self
                   for test, _ in [*result.failures, *result.errors])

    def _end(self, rig):
        try:
            wrong = [] if self._failed() else rig.problems()
            if wrong or self._failed():
                rig.dump()
            self.assertEqual(wrong, [])
        finally:
            rig.close()


def each(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from each(test)
        else:
            yield test


def begin(test):
    """This test in a process of its own: (its id, where it writes to)."""
    out = tempfile.TemporaryFile("w+")
    pid = os.fork()
    if pid:
        return pid, out
    os.dup2(out.fileno(), 1)
    os.dup2(out.fileno(), 2)
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stderr).run(
        unittest.TestSuite([test]))
    sys.stderr.flush()
    os._exit(0 if result.wasSuccessful() else 1)


def run_beside(at_once):
    """All tests of this program, so many at once; true: they passed."""
    waiting = list(each(unittest.defaultTestLoader.loadTestsFromName("__main__")))
    count, running, good = len(waiting), {}, True
    while waiting or running:
        while waiting and len(running) < at_once:
            pid, out = begin(waiting.pop(0))
            running[pid] = out
        pid, status = os.wait()
        out = running.pop(pid)
        out.seek(0)
        print(out.read(), end="", flush=True)
        good = good and status == 0
    print(f"{count} tests, {at_once} at once: {'OK' if good else 'FAILED'}")
    return good


def main(at_once=1):
    """`at_once`: run so many tests of this file beside each other, when they
    mostly wait. Those that are named are run one by one."""
    named = [word for word in sys.argv[1:] if word != "-v"]
    if at_once == 1 or named:
        unittest.main(verbosity=2)
    sys.exit(not run_beside(at_once))
