"""Outpost with RabbitMQ, Redis and PostgreSQL, as a pipeline of bench/peers. Outpost takes
events at an API with a key, not webhooks of others: each body is the data of an event."""
import json
import shutil
import subprocess
import sys

import postgres
import rig as rigs
from pipelines import redis
from pipelines.pipeline import FromSource, Pipeline, printed, require

SOURCE = FromSource("https://github.com/hookdeck/outpost",
                    "f67ae011b287ff2588cb06699d808a69bba6ab4d",
                    {"outpost": "./cmd/outpost", "outpost-server": "./cmd/outpost-server"})
RABBITMQ = "/usr/lib/rabbitmq/bin/rabbitmq-server"  # that of $PATH changes the user
API_KEY = "the rig's key"
HEADERS = {"Authorization": f"Bearer {API_KEY}", "Content-Type": "application/json"}
TENANT = "rig"


class Outpost(Pipeline):
    name = "Outpost"
    load_options = {
        "header": f"Authorization: {HEADERS['Authorization']}",
        "envelope": f'{{"tenant_id":"{TENANT}","topic":"issue","data":%}}'}

    @staticmethod
    def install():
        require({**redis.PACKAGES, RABBITMQ: "rabbitmq-server", "epmd": "erlang-base"})
        if not postgres.programs():
            sys.exit("PostgreSQL is missing: apt-get install postgresql")
        SOURCE.build()

    @staticmethod
    def versions():
        rabbitmq = printed("dpkg-query", "-W", "-f", "${Version}", "rabbitmq-server")
        return (f"Outpost {SOURCE.version()}, {redis.version()}, RabbitMQ {rabbitmq}, "
                f"{printed(str(postgres.programs() / 'postgres'), '--version')}")

    def __init__(self, in_flight):
        super().__init__(in_flight)
        (self.port, self.redis_port, self.postgres_port, self.rabbitmq_port, self.dist_port,
         self.epmd_port) = (self.rig.ports.take() for _ in range(6))
        self.folder = self.rig.folder / "stores"
        for name in ("redis", "postgres", "rabbitmq"):
            (self.folder / name).mkdir(parents=True)
        self.url = f"http://127.0.0.1:{self.port}/api/v1/publish"

    def start_postgres(self):
        """With its default settings; it refuses to run as root."""
        data = self.folder / "postgres"
        as_user, user = postgres.as_user()
        if user:
            shutil.chown(data, user)
            self.rig.folder.chmod(0o711)
        programs = postgres.programs()
        subprocess.run(
            [*as_user, programs / "initdb", "-D", data, "-U", "outpost", "-A", "trust",
             "-E", "UTF8", "--locale=C"],
            check=True, cwd="/", stdout=subprocess.DEVNULL)
        server = self.part(
            "postgres", *as_user, programs / "postgres", "-D", data, "-k", data,
            "-p", self.postgres_port, "-c", "listen_addresses=127.0.0.1")
        rigs.wait_for(lambda: "ready to accept" in server.log(),
                      what="PostgreSQL to be up")
        return server

    def start_rabbitmq(self):
        """A node of its own, which only listens on 127.0.0.1."""
        folder = self.folder / "rabbitmq"
        epmd = self.part("epmd", "epmd", "-address", "127.0.0.1", "-port", self.epmd_port)
        # Under systemd it has no shell above it, so that it ends with the rig.
        server = self.part(
            "rabbitmq", RABBITMQ, RUNNING_UNDER_SYSTEMD="true", HOME=self.rig.folder,
            ERL_EPMD_PORT=self.epmd_port, RABBITMQ_NODENAME="rig@localhost",
            RABBITMQ_NODE_IP_ADDRESS="127.0.0.1", RABBITMQ_NODE_PORT=self.rabbitmq_port,
            RABBITMQ_DIST_PORT=self.dist_port, RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=(
                "-kernel inet_dist_use_interface {127,0,0,1}"),
            RABBITMQ_MNESIA_BASE=folder, RABBITMQ_LOGS="-",
            RABBITMQ_CONFIG_FILE=self.rig.folder / "rabbitmq.conf",
            RABBITMQ_ENABLED_PLUGINS_FILE=self.rig.folder / "plugins")
        rigs.wait_for(lambda: "completed with" in server.log() or not server.alive, 60,
                      "RabbitMQ to be up")
        assert server.alive, server.log()
        return [epmd, server]

    def post(self, method, path, document):
        status, _, response = rigs.http_request(
            self.port, method, f"/api/v1/tenants/{TENANT}{path}",
            json.dumps(document), HEADERS)
        assert status in (200, 201), f"{path}: {status} {response}"

    def start(self):
        server = redis.start(self, self.folder / "redis", self.redis_port)
        database = self.start_postgres()
        rabbitmq = self.start_rabbitmq()
        settings = {
            "API_PORT": self.port, "API_KEY": API_KEY, "API_JWT_SECRET": "the rig's",
            "AES_ENCRYPTION_SECRET": "0123456789abcdef", "TOPICS": "issue",
            "REDIS_HOST": "127.0.0.1", "REDIS_PORT": self.redis_port,
            "POSTGRES_URL": f"postgres://outpost@127.0.0.1:{self.postgres_port}/postgres"
                            "?sslmode=disable",
            "RABBITMQ_SERVER_URL": f"amqp://guest:guest@127.0.0.1:{self.rabbitmq_port}",
            "DELIVERY_MAX_CONCURRENCY": self.in_flight,
            "DESTINATIONS_WEBHOOK_MODE": "standard",
            "LOG_LEVEL": "warn", "DISABLE_TELEMETRY": "true"}
        migrate = self.part("migrate", SOURCE.program("outpost"), "migrate", "apply",
                            "--yes", **settings)
        assert migrate.wait_exit() == 0, migrate.log()
        outpost = self.part("outpost", SOURCE.program("outpost-server"), **settings)
        rigs.wait_for(lambda: self.responds(outpost, self.port, "/healthz"), 60,
                      "Outpost to be up")
        self.post("PUT", "", {})
        self.post("POST", "/destinations", {
            "type": "webhook", "topics": ["issue"],
            "config": {"url": self.rig.receiver.url("/crm")},
            "credentials": {"secret": rigs.SIGNING_SECRET}})
        self.processes = [outpost, server, database, *rabbitmq]

    def close(self):
        """PostgreSQL ends by itself: killed, it would leave a segment of shared memory."""
        for part in reversed(self.rig.others):
            if part.name == "postgres":
                part.stop()
            else:
                part.kill()
        super().close()
