"""What a delivery says, and what its numbers mean."""

from __future__ import annotations

import dataclasses
import json
import urllib.parse
from typing import Any, Mapping, Optional

# The values of Check.result.
OK, DUPLICATE, OLD_EVENT, GAP_DETECTED, NEW_SERIES = RESULTS = (
    "ok", "duplicate", "old_event", "gap_detected", "new_series")


@dataclasses.dataclass(frozen=True)
class Event:
    """A verified delivery. `headers` are those that the signature covers, in lower case. A field is
    None if its header is absent."""

    id: str
    timestamp: int  # when this attempt was signed, in seconds since 1970
    body: bytes
    headers: Mapping[str, str]
    source: Optional[str] = None
    type: Optional[str] = None
    workspace: Optional[str] = None
    time: Optional[str] = None
    attempt: int = 1
    series: Optional[str] = None
    sequence: Optional[int] = None
    previous: Optional[int] = None
    source_sequence: Optional[str] = None
    gap: Optional[str] = None
    late: bool = False
    replay: bool = False

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def numbered(self) -> bool:
        """Tests of an endpoint and requests for missing events are not."""
        return self.series is not None and self.sequence is not None

    @property
    def clock(self) -> dict[str, int]:
        """How many events of each type the workspace has had (grapnel-clock)."""
        counts = {}
        for entry in self.headers.get("grapnel-clock", "").split(","):
            name, _, count = entry.rpartition("=")
            if count.isascii() and count.isdigit():
                counts[urllib.parse.unquote(name)] = int(count)
        return counts


@dataclasses.dataclass(frozen=True)
class Check:
    """What a store knows about an event.

    result   ok            new, and no event is missing before it
             duplicate     processed before: skip it
             old_event     new, but a later event of its workspace was processed before it
             gap_detected  new, and the event `missing` has not arrived
             new_series    new, the first one after Grapnel began to number anew
    missing  the number of the previous event, if that has not arrived. Also with other results.
    after    the last number before `missing` that has arrived: events between the two may be
             missing as well
    unsure   `missing` has arrived in an earlier series, so a restored Grapnel may mean that event
    filled   this event was missing until now
    conflict the id of another event that has the same number: Grapnel's databases were set back
             without its knowledge
    """

    result: str
    missing: Optional[int] = None
    after: Optional[int] = None
    unsure: bool = False
    filled: bool = False
    conflict: Optional[str] = None

    @property
    def first(self) -> bool:
        return self.result != DUPLICATE


@dataclasses.dataclass(frozen=True)
class Missing:
    """A number that an event names as its previous one and that has not arrived."""

    series: str
    workspace: str
    number: int
    since: int  # when it was first named, in seconds since 1970
    unsure: bool = False  # as in Check


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a store has about an event that is numbered, before it stores this one."""

    floor: Optional[int] = None    # numbers up to it are not checked; None: no event has set it
    announced: bool = False        # an event of this series has been processed
    earlier: bool = False          # another series of this workspace is known
    holder: Optional[str] = None   # the id of the event that has this number
    highest: Optional[int] = None  # of the numbers that have arrived
    has_previous: bool = False
    below: Optional[int] = None    # the highest number that is lower than `previous`
    named: bool = False            # an event has named this number as its previous one
    in_other: bool = False         # another series of this workspace has the number `previous`


@dataclasses.dataclass(frozen=True)
class Decision:
    check: Check
    floor: Optional[int]  # to store
    announced: bool       # to store


def decide(event: Event, first: bool, facts: Facts) -> Decision:
    """The rule of docs/RECEIVING.md: a number that an event names as its previous one, and that
    has not arrived, is missing. `first`: the id is new. An event that an operator sent again is
    old, so it does not begin the numbering."""
    assert event.sequence is not None and event.previous is not None
    begins = facts.floor is None and not event.replay
    floor = event.previous if begins else facts.floor
    missing = floor is not None and event.previous > floor and not facts.has_previous
    new_series = facts.earlier and not facts.announced and not event.replay
    if not first:
        result = DUPLICATE
    elif new_series:
        result = NEW_SERIES
    elif floor is None or event.sequence <= max(floor, facts.highest or 0):
        result = OLD_EVENT
    else:
        result = GAP_DETECTED if missing else OK
    after = None
    if missing:
        assert floor is not None
        after = max(floor, facts.below or 0)
    return Decision(
        Check(result, missing=event.previous if missing else None, after=after,
              unsure=missing and facts.in_other,
              filled=facts.named and facts.holder is None and facts.floor is not None
              and event.sequence > facts.floor,
              conflict=facts.holder if facts.holder != event.id else None),
        floor, facts.announced or (first and not event.replay))
