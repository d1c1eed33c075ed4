"""The container image, built by buildah from the Dockerfile, and the processes that
compose.yaml runs in it, without root and on a read-only file system."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
import roots
from built import copy_sources, package
from rig import RigTest, ROOT, SIGNING_SECRET, http_request, main, wait_for
from roots import run

FOLDER = ROOT / "packaging" / "container"
VOLUMES = ["/var/lib/grapnel", "/run/grapnel"]
# With it the image builds the package as well, as a user's does; it takes minutes.
WHOLE = os.environ.get("GRAPNEL_WHOLE")
# Of the Compose specification, those that we use.
SERVICE_KEYS = {
    "build", "cap_drop", "environment", "image", "init", "ports", "read_only", "restart",
    "security_opt", "stop_grace_period", "tmpfs", "ulimits", "volumes"}


def setUpModule():
    roots.require()
    if not shutil.which("buildah"):
        raise unittest.SkipTest("buildah is not installed (tools/deps test installs it)")


def compose(name):
    return yaml.safe_load((FOLDER / name).read_text())


class Images:
    """Storage of images in memory, with the base image in it."""

    def __init__(self, memory):
        self.path = memory.path
        (self.path / "tmp").mkdir()
        container = self.buildah("from", "scratch").strip()
        self.buildah("add", container, roots.archive(roots.SUITE), "/")
        self.buildah("commit", container, "base")
        self.buildah("rm", container)

    def buildah(self, *words):
        return run("buildah", "--root", self.path / "root", "--runroot",
                   self.path / "run", "--storage-driver", "overlay", *words,
                   env={**os.environ, "TMPDIR": str(self.path / "tmp")})

    def build(self, tag, context, *options):
        if not WHOLE:  # the stage `build` is a folder with the package
            made = self.path / "made"
            if not made.exists():
                (made / "src/build/package").mkdir(parents=True)
                shutil.copy(package()[0], made / "src/build/package")
            options = [*options, "--build-context", f"build={made}"]
        self.buildah("bud", "--layers", "--isolation", "chroot", "--format",
                     "docker", "--build-arg", "BASE=localhost/base", *options,
                     "-f", context / "packaging/container/Dockerfile", "-t", tag, context)

    def config(self, tag):
        return json.loads(self.buildah("inspect", "--type", "image",
                                       tag))["Docker"]["config"]

    def mounted(self, tag):
        container = self.buildah("from", tag).strip()
        return pathlib.Path(self.buildah("mount", container).strip())


class Containers:
    """Containers of one image with the same volumes, in the network of this machine."""

    def __init__(self, test, images, tag, files):
        self.test, self.config, self.children = test, images.config(tag), {}
        image = images.mounted(tag)
        self.root = images.path / f"containers-{tag.replace(':', '-')}"
        self.root.mkdir()
        for path, text in files.items():  # mounted over the image's, in reality
            at = image / path.lstrip("/")
            at.write_text(text)
            at.chmod(0o644)
        run("mount", "--bind", image, self.root)
        run("mount", "-o", "remount,bind,ro", self.root)
        for volume in VOLUMES:  # an empty volume gets owner and mode of the folder
            kept = images.path / f"volume-{tag.replace(':', '-')}" / volume.lstrip("/")
            shutil.copytree(image / volume.lstrip("/"), kept)
            run("chown", "--reference", image / volume.lstrip("/"), kept)
            run("mount", "--bind", kept, self.root / volume.lstrip("/"))
        run("mount", "-t", "tmpfs", "tmpfs", self.root / "tmp")
        run("mount", "--bind", "/dev", self.root / "dev")
        user = (self.root / "etc/passwd").read_text()
        self.uid, self.gid = re.search(
            rf"(?m)^{self.config['User']}:x:(\d+):(\d+):", user).groups()
        test.addCleanup(self.kill)

    def environment(self, more):
        return {**dict(pair.split("=", 1) for pair in self.config["Env"]), **more}

    def start(self, name, environment=(), command=None):
        self.children[name] = self.popen(
            command or self.config["Cmd"], dict(environment), self.test.log)

    def popen(self, words, environment, log):
        script = 'root=$1 user=$2; shift 2; mount -t proc proc "$root/proc" && ' \
            'exec chroot --userspec="$user" --groups= "$root" "$@"'
        return subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", script,
             "sh", self.root, f"+{self.uid}:+{self.gid}", *words],
            env=self.environment(environment), stdin=subprocess.DEVNULL,
            stdout=log, stderr=subprocess.STDOUT)

    def run(self, *words, **environment):
        """As `docker exec` does: (exit code, output)."""
        child = self.popen(words, environment, subprocess.PIPE)
        out, _ = child.communicate(timeout=60)
        return child.returncode, out.decode()

    def health(self, environment=()):
        code, _ = self.run(*self.config["Healthcheck"]["Test"][1:], **dict(environment))
        return code == 0

    def first(self, name):
        """The process that is 1 in there."""
        pid = self.children[name].pid
        at = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
        return int(at.read_text().split()[0])

    def stop(self, name):
        """As `docker stop` does: the exit code."""
        os.kill(self.first(name), signal.SIGTERM)
        return self.children.pop(name).wait(120)

    def kill(self):
        for name, child in self.children.items():
            with contextlib.suppress(OSError, IndexError):  # it has ended
                os.kill(self.first(name), signal.SIGKILL)  # and all others in there
            child.kill()
            child.wait()


class Compose(unittest.TestCase):
    def test_compose_files_use_only_known_keys(self):
        for name in ("compose.yaml", "compose.all-in-one.yaml"):
            document = compose(name)
            self.assertEqual(
                {key for key in document if not key.startswith("x-")},
                {"name", "services", "volumes"})
            for service in document["services"].values():
                self.assertLessEqual(set(service), SERVICE_KEYS)
                build = service["build"]
                context = (FOLDER / build["context"]).resolve()
                self.assertEqual(context, ROOT)
                self.assertTrue((context / build["dockerfile"]).exists())
                for volume in service["volumes"]:
                    source, target = volume.split(":")[:2]
                    self.assertTrue(source.startswith("./") or
                                    source in document["volumes"], volume)
                for volume in VOLUMES:
                    self.assertIn(volume, [v.split(":")[1] for v in service["volumes"]])
                for port in service.get("ports", []):
                    self.assertTrue(port.startswith("127.0.0.1:"), port)

    def test_docker_compose_accepts_the_files(self):
        if subprocess.run(["docker", "compose", "version"], capture_output=True,
                          check=False).returncode != 0 if shutil.which("docker") else True:
            self.skipTest("there is no docker compose")
        for name in ("compose.yaml", "compose.all-in-one.yaml"):
            run("docker", "compose", "-f", FOLDER / name, "config", "-q")

    def test_the_build_context_excludes_private_files(self):
        ignored = (ROOT / ".dockerignore").read_text().split("\n")
        for path in (".git", ".grapnel", "grapnel.yaml", "build", "state", "run",
                     "packaging/container/secrets"):
            self.assertIn(path, ignored)

    def test_secrets_beside_the_files_are_not_committed(self):
        ignored = (ROOT / ".gitignore").read_text().split("\n")
        self.assertIn("/packaging/container/secrets/", ignored)


class Image(RigTest):
    @classmethod
    def setUpClass(cls):
        cls.images = Images(cls.enterClassContext(roots.Memory()))

    def setUp(self):
        self.rig_ = self.rig()
        self.log_path = self.rig_.folder / "containers.log"
        self.log = self.enterContext(open(self.log_path, "ab"))
        self.addCleanup(self.show_log)
        self.context = ROOT
        if WHOLE:  # what `git clone` has, and no build of ours
            self.context = self.rig_.folder / "source"
            copy_sources(self.context)

    def show_log(self):
        if self._failed():
            print(self.log_path.read_text(), file=sys.stderr)

    def files(self):
        """The configuration as a user mounts it, for an application beside it."""
        rig = self.rig_
        text = (FOLDER / "grapnel.yaml").read_text()
        for block in ("sources", "endpoints"):
            start = text.index(f"# {block}:\n")
            end = (text + "\n").index("\n\n", start)
            text = text[:start] + "\n".join(
                line.removeprefix("# ") for line in text[start:end].split("\n")) + \
                text[end:]
        self.page = rig.ports.take()
        text = text.replace("0.0.0.0:8080", f"127.0.0.1:{rig.ingress_port}")
        text = text.replace("0.0.0.0:8081", f"127.0.0.1:{self.page}")
        text = text.replace(":7464", f":{rig.ports.take()}")
        text = text.replace("http://app:3000/hooks", rig.receiver.url("/hooks"))
        return {"/etc/grapnel/grapnel.yaml": text,
                "/etc/grapnel/secrets/github": "a-secret",
                "/etc/grapnel/secrets/app": SIGNING_SECRET}

    def deliver(self, containers):
        code, said = containers.run("grapnel", "send", "github", "--json")
        self.assertEqual(code, 0, said)
        event = re.search(r"evt_[0-9A-Za-z_-]+", said)[0]
        self.rig_.receiver.wait(event, path="/hooks")

    def ready(self, containers, healthy):
        for name, child in containers.children.items():
            self.assertIsNone(child.poll(), f"{name} ended")
        with contextlib.suppress(OSError):
            return http_request(self.rig_.ingress_port, "GET", "/readyz")[0] == 200 and \
                all(containers.health(of) for of in healthy)
        return False

    def test_the_image_runs_one_process_in_each_container(self):
        self.images.build("grapnel", self.context)
        containers = Containers(self, self.images, "grapnel", self.files())
        self.assertEqual(containers.config["User"], "grapnel")
        services = {name: service["environment"] for name, service in
                    compose("compose.yaml")["services"].items()}
        self.assertEqual(set(services),
                         {"ingress", "sequencer", "deliverer-1", "dlqd", "console"})
        for name, environment in services.items():
            self.assertFalse(containers.health(environment), name)
            containers.start(name, environment)
        wait_for(lambda: self.ready(containers, services.values()), 30,
                 "the containers to be healthy")
        self.deliver(containers)
        for name in services:
            words = pathlib.Path(f"/proc/{containers.first(name)}/cmdline").read_text()
            self.assertEqual(words.split("\0")[0], f"grapnel-{name.split('-')[0]}")
            status = pathlib.Path(f"/proc/{containers.first(name)}/status").read_text()
            self.assertRegex(status, rf"(?m)^Uid:\s+{containers.uid}\s")

        # One container is replaced while the others run.
        self.assertEqual(containers.stop("sequencer"), 0)
        self.assertFalse(containers.health(services["sequencer"]))
        containers.start("sequencer", services["sequencer"])
        wait_for(lambda: self.ready(containers, services.values()), 30,
                 "the sequencer's new container")
        self.deliver(containers)
        for name in services:
            self.assertEqual(containers.stop(name), 0, name)

    def test_the_image_runs_all_processes_in_one_container(self):
        self.images.build("grapnel:all-in-one", self.context, "--target", "all-in-one")
        containers = Containers(self, self.images, "grapnel:all-in-one", self.files())
        containers.start("grapnel")
        wait_for(lambda: self.ready(containers, [{}]), 30, "the container to be healthy")
        self.deliver(containers)
        self.assertEqual(containers.stop("grapnel"), 0)


main()
