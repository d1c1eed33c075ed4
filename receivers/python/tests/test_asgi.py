"""The middleware, without a server: what it responds, and what it lets through."""

import asyncio
import unittest

from grapnel_receiver import MemoryStore, Receiver
from grapnel_receiver.asgi import GrapnelMiddleware
from vectors import KEY, NOW, delivery


async def application(scope, receive, send):
    await send({"type": "http.response.start", "status": 299, "headers": []})
    await send({"type": "http.response.body", "body": b""})


class Middleware(unittest.TestCase):
    def setUp(self):
        self.events, self.fails = [], None

        def handle(event, check, connection):
            if self.fails:
                raise self.fails
            self.events.append((event.id, check.result))

        self.store = MemoryStore()
        self.app = GrapnelMiddleware(
            application, Receiver([KEY], self.store, clock=lambda: NOW), handle, max_body=100)

    def ask(self, headers, parts, path="/hooks", method="POST", ends=True):
        messages = [{"type": "http.request", "body": p, "more_body": True} for p in parts]
        messages += [{"type": "http.request", "more_body": False}] if ends else [
            {"type": "http.disconnect"}]
        sent = []

        async def receive():
            return messages.pop(0)

        async def send(message):
            sent.append(message)

        asyncio.run(self.app({"type": "http", "path": path, "method": method,
                              "headers": headers}, receive, send))
        return sent[0] if sent else None

    def test_responses(self):
        headers, body = delivery("in order", 0)
        with self.assertLogs("grapnel_receiver", "ERROR"):
            self.fails = KeyError("of the handler")
            self.assertEqual(self.ask(headers, [body])["status"], 503)
        self.fails = None
        for said in (204, 204):
            self.assertEqual(self.ask(headers, [body[:3], body[3:]])["status"], said)
        self.assertEqual(self.events, [("evt_" + "1".zfill(26), "ok")])
        with self.assertLogs("grapnel_receiver", "WARNING") as logged:
            self.assertEqual(self.ask(headers, [body, b" "])["status"], 401)
        self.assertIn("webhook-signature is wrong", logged.output[0])
        self.assertEqual(self.ask(headers, [b"x" * 99, b"xx", b"x" * 999])["status"], 413)
        self.assertEqual(self.ask(headers, [], method="GET")["status"], 405)
        self.assertEqual(self.ask(headers, [body], path="/other")["status"], 299)
        self.assertIsNone(self.ask(headers, [body], ends=False))

    def test_busy(self):
        headers, body = delivery("in order", 0)
        event = Receiver([KEY], clock=lambda: NOW).verify(headers, body)
        self.store._claim(event, "of another", False, NOW)
        said = self.ask(headers, [body])
        self.assertEqual((said["status"], said["headers"]), (503, [(b"retry-after", b"10")]))

    def test_a_coroutine_is_refused(self):
        async def handle(event, check, connection):
            pass

        with self.assertRaisesRegex(TypeError, "thread"):
            GrapnelMiddleware(application, Receiver([KEY]), handle)


if __name__ == "__main__":
    unittest.main()
