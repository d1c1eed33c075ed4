"""Verifies a request, and processes its event once."""

from __future__ import annotations

import time
from typing import Any, Callable, Optional, Sequence

from .events import Check, Event, Missing
from .signatures import TOLERANCE_S, Headers, Verifier
from .stores import MemoryStore, Store

# Your work. The third is the connection whose transaction stores the event as processed:
# write with it, do not commit. With MemoryStore and RedisStore it is None.
Handler = Callable[[Event, Check, Any], None]
KEEP_S = 40 * 86400  # longer than Grapnel may send an event again, by default


class Receiver:
    """`secrets`: those of the endpoint, "whsec_…" or "whpk_…". `order=False` only deduplicates:
    then events of one workspace do not wait for each other in a database."""

    def __init__(self, secrets: Sequence[str], store: Optional[Store] = None, *,
                 tolerance_s: int = TOLERANCE_S, order: bool = True,
                 clock: Callable[[], float] = time.time):
        self._verifier = Verifier(secrets, tolerance_s)
        self.store: Store = store if store is not None else MemoryStore()
        self._order = order
        self._clock = clock

    def verify(self, headers: Headers, body: bytes) -> Event:
        """Raises VerificationError. `body`: the bytes, before any parser has changed them."""
        return self._verifier.verify(headers, body, self._clock())

    def verify_standard(self, headers: Headers, body: bytes) -> Event:
        """As verify(), for requests without grapnel-signature, such as alerts."""
        return self._verifier.verify_standard(headers, body, self._clock())

    def receive(self, headers: Headers, body: bytes, handle: Handler) -> Check:
        """verify() and process(). Respond 2xx when it returns, 401 after VerificationError, and
        503 after any other exception: then Grapnel sends the event again."""
        return self.process(self.verify(headers, body), handle)

    def process(self, event: Event, handle: Handler) -> Check:
        """Calls handle(event, check, connection) unless the event is a duplicate, and stores the
        event as processed. If `handle` raises, nothing is stored."""
        return self.store.process(event, int(self._clock()), self._order, handle)

    def check(self, event: Event, connection: Any) -> Check:
        """Checks and stores the event in the transaction that you have begun on `connection`, and
        leaves it open. Commit after your work; roll back after an error."""
        return self.store.check(event, int(self._clock()), self._order, connection)

    def missing(self, older_s: int = 3600) -> list[Missing]:
        """Events that were named, but have not arrived for this long: lost, dead letters, or in
        a long retry."""
        return self.store.missing(int(self._clock()) - older_s)

    def forget(self, older_s: int = KEEP_S) -> None:
        """Deletes what was received before. Call it once a day."""
        self.store.forget(int(self._clock()) - older_s)
