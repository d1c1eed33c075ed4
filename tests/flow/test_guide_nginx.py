"""The commands of the guide "Going live behind nginx" work, with a real nginx."""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "rig"))
from guide import Guide  # noqa: E402
from rig import BUILD, ROOT, RigTest, main, processes_of, wait_for  # noqa: E402

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/bin")
MAIN = """daemon on;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  {temporary}
  include {folder}/sites-enabled/*;
}}
"""


@unittest.skipUnless(NGINX, "nginx is not installed (tools/deps test)")
class Nginx(RigTest):
    def prepare(self):
        """What Debian's packages have: a running Grapnel, an empty nginx.conf."""
        self.nginx = self.pipeline.folder / "nginx"
        for name in ("sites-available", "sites-enabled"):
            (self.nginx / name).mkdir(parents=True)
        temporary = "".join(
            f"{kind}_temp_path {self.nginx}/{kind};" for kind in
            ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (self.nginx / "nginx.conf").write_text(
            MAIN.format(folder=self.nginx, temporary=temporary))
        (self.pipeline.folder / "secrets").mkdir()
        (self.pipeline.folder / "secrets" / "github").write_text("githubs-secret")
        self.command = [NGINX, "-p", str(self.nginx), "-e",
                        f"{self.nginx}/error.log", "-c", f"{self.nginx}/nginx.conf"]

    def systemctl(self, words):
        verb, unit = words
        if unit == "grapnel-ingress":
            ingress = self.pipeline["ingress"]
            return ingress.stop() if verb == "stop" else ingress.start() and 0
        self.assertEqual((verb, unit), ("reload", "nginx"))
        running = self.nginx_runs()
        subprocess.run([*self.command, *(["-s", "reload"] if running else [])],
                       check=True)
        wait_for(self.nginx_runs)
        return 0

    def nginx_runs(self):
        pid = self.nginx / "nginx.pid"
        return pid.exists() and pid.read_text().strip()  # `nginx -t` makes it empty

    def stop_nginx(self):
        if self.nginx_runs():
            subprocess.run([*self.command, "-s", "stop"], check=False)
        wait_for(lambda: not any("nginx: " in p for p in processes_of(self.nginx)))

    def test_every_command_of_the_guide(self):
        rig = self.pipeline = self.rig()
        rig.start()
        self.prepare()
        https, app = rig.ports.take(), rig.ports.take()
        guide = Guide(
            ROOT / "docs/guides/nginx.md", rig.folder,
            replace={"/etc/grapnel": str(rig.folder), "/etc/nginx": str(self.nginx),
                     "/var/lib/grapnel": str(rig.state_dir),
                     "/run/grapnel": str(rig.run_dir),
                     "127.0.0.1:8080": f"127.0.0.1:{rig.ingress_port}",
                     "127.0.0.1:3000": f"127.0.0.1:{app}",
                     "listen 443": f"listen 127.0.0.1:{https}",
                     "hooks.example.com:443:": f"hooks.example.com:{https}:",
                     "https://hooks.example.com/in/github":
                         f"https://hooks.example.com:{https}/in/github",
                     "https://hooks.example.com/healthz":
                         f"https://hooks.example.com:{https}/healthz"},
            commands={"systemctl": self.systemctl, "apt-get": "true",
                      "nginx": " ".join([*self.command, '"$@"'])},
            env={"GRAPNEL_CONFIG": str(rig.config_path),
                 "PATH": f"{BUILD / 'bin'}:/usr/bin:/bin"})
        self.addCleanup(guide.close)
        try:
            guide.run()
            guide.finish()
        except AssertionError:
            log = self.nginx / "error.log"
            print(log.read_text() if os.path.exists(log) else "no nginx log")
            raise
        finally:
            self.stop_nginx()


main()
