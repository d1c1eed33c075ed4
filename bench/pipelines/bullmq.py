"""The pipeline that one would write oneself, for bench/peers: Express takes and verifies,
BullMQ queues and retries, Redis stores with appendfsync always (bench/bullmq/)."""
import shutil
import subprocess

import rig as rigs
from pipelines import redis
from pipelines.pipeline import PEERS, ROOT, Pipeline, printed, require

FOLDER = PEERS / "bullmq"


class DoItYourself(Pipeline):
    name = "Express + BullMQ + Redis"

    @staticmethod
    def install():
        """The packages, as the lock file has them."""
        require({**redis.PACKAGES, "node": "nodejs", "npm": "npm"})
        FOLDER.mkdir(parents=True, exist_ok=True)
        for path in (ROOT / "bench" / "bullmq").iterdir():
            if path.is_file():
                shutil.copy(path, FOLDER)
        if not (FOLDER / "node_modules").exists():
            subprocess.run(["npm", "install", "--no-save", "--omit=optional",
                            "--ignore-scripts", "--silent"],
                           cwd=FOLDER, check=True)

    @staticmethod
    def versions():
        return f"Node.js {printed('node', '--version')}, {redis.version()}"

    def __init__(self, in_flight):
        super().__init__(in_flight)
        self.port, self.redis_port = self.rig.ports.take(), self.rig.ports.take()
        self.folder = self.rig.folder / "redis"
        self.folder.mkdir()
        self.url = f"http://127.0.0.1:{self.port}/in/plane"

    def node(self, name):
        node = self.part(
            name, "node", FOLDER / f"{name}.js", NODE_ENV="production",
            HTTP_PORT=self.port, REDIS_PORT=self.redis_port, SECRET=rigs.PLANE_SECRET,
            SIGNING_SECRET=rigs.SIGNING_SECRET, CONCURRENCY=self.in_flight,
            ENDPOINT=self.rig.receiver.url("/crm"))
        rigs.wait_for(lambda: "ready" in node.log() or not node.alive)
        assert node.alive, node.log()
        return node

    def start(self):
        server = redis.start(self, self.folder, self.redis_port)
        self.processes = [server, self.node("receive"), self.node("deliver")]
