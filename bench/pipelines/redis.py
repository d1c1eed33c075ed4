"""Redis that syncs each write to the disk before it responds, for pipelines of bench/peers."""
import rig as rigs
from pipelines.pipeline import printed

PACKAGES = {"redis-server": "redis-server"}


def version():
    return " ".join(printed("redis-server", "--version").split()[:3])


def start(pipeline, folder, port):
    server = pipeline.part(
        "redis", "redis-server", "--port", port, "--bind", "127.0.0.1", "--dir", folder,
        "--save", "", "--appendonly", "yes", "--appendfsync", "always",
        "--maxmemory-policy", "noeviction")
    rigs.wait_for(lambda: "Ready to accept" in server.log())
    return server
