"""A Chromium without a window, driven by the DevTools protocol over two pipes: only Debian's `chromium` is
needed. Keys and clicks are given to the browser as a person's, so that what is tested is what it does with them.

    with Browser() as browser:
        tab = browser.tab()
        tab.open("http://127.0.0.1:8081/")
        tab.click("button", "Sign in")
"""

import base64
import contextlib
import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

from rig import SLOW

WAIT_S = 15 * SLOW
KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, "")}


def chromium():
    """Its program; None: it is not installed."""
    return shutil.which("chromium")


class Browser:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="grb-")
        ours, theirs = os.pipe(), os.pipe()  # what we write, what it writes
        far = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (ours[0], theirs[1])]
        os.close(ours[0]), os.close(theirs[1])
        self.to, self.source = ours[1], theirs[0]
        self.process = subprocess.Popen(
            [chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--no-first-run", "--disable-extensions", "--disable-background-networking",
             "--disable-component-update", "--remote-debugging-pipe",
             f"--user-data-dir={self.folder}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            preexec_fn=lambda: (os.dup2(far[0], 3), os.dup2(far[1], 4)), pass_fds=(3, 4))
        for fd in far:
            os.close(fd)
        self.rest, self.last, self.tabs = b"", 0, {}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with contextlib.suppress(OSError, TimeoutError, EOFError):
            self.ask("Browser.close", wait_s=5)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.to), os.close(self.source)
        shutil.rmtree(self.folder, ignore_errors=True)

    def message(self, until):
        while b"\0" not in self.rest:
            if not select.select([self.source], [], [], max(0, until - time.monotonic()))[0]:
                return None
            piece = os.read(self.source, 1 << 20)
            if not piece:
                raise EOFError("the browser has ended")
            self.rest += piece
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def ask(self, method, session=None, wait_s=WAIT_S, **params):
        self.last += 1
        mine = self.last
        request = {"id": mine, "method": method, "params": params}
        if session:
            request["sessionId"] = session
        text = json.dumps(request).encode() + b"\0"
        while text:
            text = text[os.write(self.to, text):]
        until = time.monotonic() + wait_s
        while True:
            reply = self.message(until)
            if reply is None:
                raise TimeoutError(f"the browser did not reply to {method}")
            if reply.get("id") == mine:
                if "error" in reply:
                    raise RuntimeError(f"{method}: {reply['error']}")
                return reply["result"]
            self.note(reply)

    def note(self, message):
        tab = self.tabs.get(message.get("sessionId"))
        if tab:
            tab.note(message.get("method"), message.get("params", {}))

    def tab(self, width=1280, height=900, dark=False):
        context = self.ask("Target.createBrowserContext")["browserContextId"]
        target = self.ask("Target.createTarget", url="about:blank", browserContextId=context)["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        return Tab(self, session, target, context, width, height, dark)


class Tab:
    """A tab with cookies of its own. `problems`: exceptions, errors on the console, and violations of the
    page's policy."""

    def __init__(self, browser, session, target, context, width, height, dark):
        self.browser, self.session, self.target, self.context = browser, session, target, context
        self.problems, self.requests = [], []
        self.sent = []  # the headers of requests as they were sent, with cookies
        browser.tabs[session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.look(width, height, dark)

    def ask(self, method, **params):
        return self.browser.ask(method, self.session, **params)

    def note(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.problems.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error" \
                and params["entry"]["source"] != "network":
            self.problems.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif method == "Network.requestWillBeSentExtraInfo":
            self.sent.append({k.lower(): v for k, v in params["headers"].items()})

    def look(self, width, height=900, dark=False):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                 mobile=width < 500)
        self.ask("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url):
        self.ask("Page.navigate", url=url)

    def js(self, expression):
        reply = self.ask("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in reply:
            raise RuntimeError(reply["exceptionDetails"].get("exception", {}).get("description"))
        return reply["result"].get("value")

    def wait(self, expression, what=None, wait_s=WAIT_S):
        until = time.monotonic() + wait_s
        while True:
            with contextlib.suppress(RuntimeError):  # the document changes
                value = self.js(f"((v) => v instanceof Node ? true : v)({expression})")
                if value:
                    return value
            if time.monotonic() > until:
                raise AssertionError(f"not within {wait_s} s: {what or expression}\n{self.text()[:3000]}\n"
                                     f"{self.problems}")
            time.sleep(0.03)

    def text(self):
        return self.js("document.body?.innerText ?? ''") or ""

    def sees(self, text):
        return self.wait(f"document.body?.innerText.includes({json.dumps(text)})", f"text {text!r}")

    def path(self):
        return self.js("location.pathname + location.search + location.hash")

    def place(self, selector, text=None):
        """Where an element with this text is, when it can be clicked and does not move any more: what comes later above
        it moves it."""
        at = self.place_now(selector, text)
        while (now := self.place_now(selector, text)) != at:
            at = now
        return at

    def place_now(self, selector, text):
        find = (f"[...document.querySelectorAll({json.dumps(selector)})].find((e) => e.checkVisibility() && "
                f"!e.disabled && ({json.dumps(text)} === null || e.textContent.trim() === {json.dumps(text)} "
                f"|| e.textContent.includes({json.dumps(text)})))")
        return self.wait(f"""(() => {{
            const e = {find};
            if (!e) return null;
            e.scrollIntoView({{block: "center"}});
            const b = e.getBoundingClientRect();
            const at = [b.left + b.width / 2, b.top + Math.min(b.height / 2, 20)];
            // Not behind a dialog that is about to close.
            return e.contains(document.elementFromPoint(...at)) ? at : null;
        }})()""", f"{selector} {text!r}")

    def click(self, selector, text=None):
        self.press(selector, text)()

    def press(self, selector, text=None):
        """Presses the button of the pointer on an element. Returns a function that releases it there."""
        x, y = self.place(selector, text)

        def mouse(kind):
            self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        mouse("mousePressed")
        return lambda: mouse("mouseReleased")

    def write(self, text):
        self.ask("Input.insertText", text=text)

    def fill(self, selector, text):
        self.wait(f"document.querySelector({json.dumps(selector)})?.checkVisibility()", selector)
        self.js(f"document.querySelector({json.dumps(selector)}).select?.() ?? 0")
        self.js(f"document.querySelector({json.dumps(selector)}).focus()")
        self.write(text)

    def key(self, name):
        code, text = KEYS.get(name, (ord(name.upper()[0]), name))
        params = {"key": name, "windowsVirtualKeyCode": code}
        self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **params) if text else \
            self.ask("Input.dispatchKeyEvent", type="rawKeyDown", **params)
        self.ask("Input.dispatchKeyEvent", type="keyUp", **params)

    def choose(self, selector, value):
        self.wait(f"document.querySelector({json.dumps(selector)})", selector)
        self.js(f"""(() => {{ const e = document.querySelector({json.dumps(selector)});
            e.value = {json.dumps(value)}; e.dispatchEvent(new Event("change", {{bubbles: true}})); }})()""")

    def tree(self):
        """The accessibility tree: [(role, name, properties)] of what a screen reader sees."""
        nodes = self.ask("Accessibility.getFullAXTree")["nodes"]
        return [(n["role"]["value"], n.get("name", {}).get("value", ""),
                 {p["name"]: p["value"].get("value") for p in n.get("properties", [])})
                for n in nodes if not n.get("ignored") and "role" in n]

    def cookies(self):
        return self.ask("Network.getCookies")["cookies"]

    def screenshot(self, path, whole=False):
        data = self.ask("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def frame(self, origin):
        """The tab of a frame of another site, which has a process of its own. Clicks and keys go by the page
        around it, as a person's."""
        until = time.monotonic() + WAIT_S
        while True:
            for target in self.browser.ask("Target.getTargets")["targetInfos"]:
                if target["type"] == "iframe" and target["url"].startswith(origin) and \
                        target.get("browserContextId") == self.context:
                    session = self.browser.ask("Target.attachToTarget", targetId=target["targetId"],
                                               flatten=True)["sessionId"]
                    return Frame(self, session, target["targetId"])
            if time.monotonic() > until:
                raise AssertionError(f"there is no frame of {origin}")
            time.sleep(0.03)


class Frame(Tab):
    def __init__(self, around, session, target):
        self.around = around
        self.browser, self.session, self.target, self.context = around.browser, session, target, around.context
        self.problems, self.requests, self.sent = around.problems, [], []
        self.browser.tabs[session] = self
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")

    def click(self, selector, text=None):
        x, y = self.place(selector, text)
        left, top = self.around.js("(() => { const b = document.querySelector('iframe').getBoundingClientRect(); "
                                   "return [b.left, b.top]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.around.ask("Input.dispatchMouseEvent", type=kind, x=x + left, y=y + top, button="left",
                            clickCount=1)
