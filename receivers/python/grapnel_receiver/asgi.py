"""Middleware for FastAPI, Starlette, Litestar, Quart, and every other ASGI application."""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import Any, Awaitable, Callable, Iterable, MutableMapping, Optional, Tuple

from .receiver import Handler, Receiver
from .signatures import VerificationError
from .stores import Busy

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Reply = Tuple[int, Iterable[Tuple[bytes, bytes]]]
log = logging.getLogger("grapnel_receiver")


class GrapnelMiddleware:
    """Responds to Grapnel's requests at `path`; `app` gets all others. `handle` is an ordinary
    function: it runs in a thread, as it waits for the database. `max_body`, in bytes, is at least
    ingress.max_body of Grapnel.

    204: processed, or a duplicate. 401: a wrong signature. 413: the body is too large. 503: `handle`
    or the store failed, and Grapnel sends the event again."""

    def __init__(self, app: App, receiver: Receiver, handle: Handler, path: str = "/hooks",
                 max_body: int = 1 << 20) -> None:
        if inspect.iscoroutinefunction(handle):
            raise TypeError("handle is an `async def`; write `def`: it runs in a thread")
        self.app = app
        self._receiver = receiver
        self._handle = handle
        self._path = path
        self._max_body = max_body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] != self._path:
            await self.app(scope, receive, send)
            return
        status: int = 405
        headers: Iterable[Tuple[bytes, bytes]] = [(b"allow", b"POST, PUT")]
        if scope["method"] in ("POST", "PUT"):
            body = await self._body(receive)
            if body is None:
                return  # the client has gone
            status, headers = await asyncio.to_thread(self._respond, scope["headers"], body)
        await send({"type": "http.response.start", "status": status, "headers": list(headers)})
        await send({"type": "http.response.body", "body": b""})

    async def _body(self, receive: Receive) -> Optional[bytes]:
        """One byte more than allowed, if there are more. The rest is read and dropped: the response
        to a request that is still being sent could be lost."""
        parts, size = [], 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            part = message.get("body", b"")
            if size <= self._max_body:
                parts.append(part[:self._max_body + 1 - size])
                size += len(parts[-1])
            if not message.get("more_body"):
                return b"".join(parts)

    def _respond(self, headers: Iterable[Tuple[bytes, bytes]], body: bytes) -> Reply:
        if len(body) > self._max_body:
            return 413, []
        try:
            self._receiver.receive(headers, body, self._handle)
        except VerificationError as error:
            log.warning("refused a request: %s", error)
            return 401, []
        except Busy as error:
            log.info("%s", error)
            return 503, [(b"retry-after", b"10")]
        except Exception:
            log.exception("an event was not processed; Grapnel sends it again")
            return 503, []
        return 204, []
