"""What a store does, and the stores whose memory cannot share a transaction with your work."""

from __future__ import annotations

import abc
import os
import threading
from typing import Any, Callable, Iterable, Optional, TypeVar

from .events import DUPLICATE, OK, Check, Event, Facts, Missing, decide

KEEP_S = 40 * 86400
LEASE_S = 60
_Key = TypeVar("_Key")


class Busy(Exception):
    """Another attempt of this event is being processed. Respond 503 with Retry-After: Grapnel
    sends it again."""


class Store(abc.ABC):
    @abc.abstractmethod
    def process(self, event: Event, now_s: int, order: bool,
                handle: Callable[[Event, Check, Any], None]) -> Check:
        """Receiver.process()."""

    def check(self, event: Event, now_s: int, order: bool, connection: Any) -> Check:
        """Receiver.check()."""
        raise TypeError(f"{type(self).__name__} cannot join your transaction: call process()")

    @abc.abstractmethod
    def missing(self, before_s: int) -> list[Missing]:
        """Missing numbers that were first named at this time or before, the oldest first."""

    @abc.abstractmethod
    def forget(self, before_s: int) -> None:
        """Deletes what was received before. Numbers up to the highest deleted one count as
        arrived."""


class _ClaimStore(Store):
    """Claims the event, lets it be processed, and stores it as processed. A claim that nobody ends
    (the process died) ends by itself."""

    def process(self, event: Event, now_s: int, order: bool,
                handle: Callable[[Event, Check, Any], None]) -> Check:
        token = os.urandom(8).hex()
        numbered = order and event.numbered
        first, facts = self._claim(event, token, numbered, now_s)
        if numbered:
            decision = decide(event, first, facts)
            check, floor, announced = decision.check, decision.floor, decision.announced
        else:
            check, floor, announced = Check(OK if first else DUPLICATE), None, False
        if first:
            try:
                handle(event, check, None)
            except BaseException:
                self._release(event, token)
                raise
        self._finish(event, numbered, floor, announced, now_s)
        return check

    @abc.abstractmethod
    def _claim(self, event: Event, token: str, numbered: bool,
               now_s: int) -> tuple[bool, Facts]:
        """(the event is new, what is known). Raises Busy."""

    @abc.abstractmethod
    def _release(self, event: Event, token: str) -> None: ...

    @abc.abstractmethod
    def _finish(self, event: Event, numbered: bool, floor: Optional[int], announced: bool,
                now_s: int) -> None: ...


class _Numbers:
    """Of one series and workspace."""

    def __init__(self) -> None:
        self.floor: Optional[int] = None
        self.announced = False
        self.arrived: dict[int, tuple[str, int]] = {}  # number: (id, when), in order of arrival
        self.missing: dict[int, int] = {}  # number: since
        self.highest: Optional[int] = None


class MemoryStore(_ClaimStore):
    """For tests, and for one process whose work may be repeated after a restart."""

    def __init__(self, keep_s: int = KEEP_S) -> None:
        self._keep_s = keep_s
        self._lock = threading.Lock()
        self._ids: dict[str, int] = {}  # when; in order of arrival
        self._claimed: dict[str, str] = {}
        self._spaces: dict[tuple[str, str], _Numbers] = {}  # by workspace and series

    def _space(self, event: Event) -> _Numbers:
        assert event.workspace is not None and event.series is not None
        return self._spaces.setdefault((event.workspace, event.series), _Numbers())

    def _claim(self, event: Event, token: str, numbered: bool,
               now_s: int) -> tuple[bool, Facts]:
        with self._lock:
            if event.id in self._claimed:
                raise Busy(f"event {event.id} is being processed")
            first = event.id not in self._ids
            if first:
                self._claimed[event.id] = token
            return first, self._facts(event) if numbered else Facts()

    def _facts(self, event: Event) -> Facts:
        sequence, previous = event.sequence, event.previous
        assert sequence is not None and previous is not None
        space = self._space(event)
        others = [s for (workspace, series), s in self._spaces.items()
                  if workspace == event.workspace and series != event.series]
        below = None
        if previous not in space.arrived:
            below = max((n for n in space.arrived if n < previous), default=None)
        return Facts(
            floor=space.floor, announced=space.announced,
            earlier=any(s.floor is not None for s in others),
            holder=space.arrived.get(sequence, (None, 0))[0], highest=space.highest,
            has_previous=previous in space.arrived, below=below,
            named=sequence in space.missing,
            in_other=any(previous in s.arrived for s in others))

    def _release(self, event: Event, token: str) -> None:
        with self._lock:
            del self._claimed[event.id]

    def _finish(self, event: Event, numbered: bool, floor: Optional[int], announced: bool,
                now_s: int) -> None:
        with self._lock:
            self._claimed.pop(event.id, None)
            self._ids.setdefault(event.id, now_s)
            if numbered:
                self._number(self._space(event), event, floor, announced, now_s)
            self._drop(now_s - self._keep_s)

    def _number(self, space: _Numbers, event: Event, floor: Optional[int], announced: bool,
                now_s: int) -> None:
        sequence, previous = event.sequence, event.previous
        assert sequence is not None and previous is not None
        space.floor = floor if space.floor is None else space.floor
        space.announced |= announced
        space.arrived.setdefault(sequence, (event.id, now_s))
        space.missing.pop(sequence, None)
        space.highest = max(sequence, space.highest or 0)
        if space.floor is not None and previous > space.floor and previous not in space.arrived:
            space.missing.setdefault(previous, now_s)

    def _drop(self, before_s: int) -> None:
        """Entries are in order of arrival, so it ends at the first one that is young enough."""
        for event_id in _oldest(self._ids.items(), before_s):
            del self._ids[event_id]
        for space in self._spaces.values():
            old = _oldest(((n, at) for n, (_, at) in space.arrived.items()), before_s)
            for number in old:
                del space.arrived[number]
            if old and space.floor is not None:
                space.floor = floor = max(space.floor, *old)
                for number in [n for n in space.missing if n <= floor]:
                    del space.missing[number]

    def missing(self, before_s: int) -> list[Missing]:
        with self._lock:
            found = [
                Missing(series, workspace, number, since, any(
                    number in o.arrived for (w, s), o in self._spaces.items()
                    if w == workspace and s != series))
                for (workspace, series), space in self._spaces.items()
                for number, since in space.missing.items() if since <= before_s]
        return sorted(found, key=lambda m: (m.since, m.number))

    def forget(self, before_s: int) -> None:
        with self._lock:
            self._drop(before_s)


def _oldest(entries: Iterable[tuple[_Key, int]], before_s: int) -> list[_Key]:
    found = []
    for key, at in entries:
        if at >= before_s:
            break
        found.append(key)
    return found


# Keys have one prefix with braces, so that a cluster keeps them together:
#   PREFIX:id:ID                   "done", or the token of a claim
#   PREFIX:series:WORKSPACE        the set of its series
#   PREFIX:state:SERIES:WORKSPACE  hash: floor, announced
#   PREFIX:numbers:…               sorted set of numbers, by number
#   PREFIX:ids:…                   hash: number → id
#   PREFIX:times:…                 sorted set of numbers, by time
#   PREFIX:missing:…               hash: number → since
#   PREFIX:spaces                  the set of SERIES:WORKSPACE
# They expire when nothing has arrived for `keep_s`.
CLAIM = """
local p, id, token, lease, series, workspace, sequence, previous = unpack(ARGV)
local new = redis.call('SET', p..':id:'..id, token, 'NX', 'EX', lease)
if not new and redis.call('GET', p..':id:'..id) ~= 'done' then return {'busy'} end
local out = {new and 'new' or 'done'}
if series == '' then return out end
local here = series..':'..workspace
local state = redis.call('HMGET', p..':state:'..here, 'floor', 'announced')
local numbers = p..':numbers:'..here
local top = redis.call('ZREVRANGE', numbers, 0, 0)
local below = redis.call('ZREVRANGEBYSCORE', numbers, '('..previous, '-inf', 'LIMIT', 0, 1)
local earlier, other = '', ''
for _, s in ipairs(redis.call('SMEMBERS', p..':series:'..workspace)) do
  if s ~= series then
    if redis.call('HGET', p..':state:'..s..':'..workspace, 'floor') then earlier = '1' end
    if redis.call('ZSCORE', p..':numbers:'..s..':'..workspace, previous) then other = '1' end
  end
end
local holder = redis.call('HGET', p..':ids:'..here, sequence)
for _, v in ipairs({state[1] or '', state[2] or '', earlier, holder or '', top[1] or '',
    redis.call('ZSCORE', numbers, previous) and '1' or '', below[1] or '',
    redis.call('HEXISTS', p..':missing:'..here, sequence) == 1 and '1' or '', other}) do
  table.insert(out, v)
end
return out
"""
FINISH = """
local p, id, now, keep, series, workspace, sequence, previous, floor, announced = unpack(ARGV)
redis.call('SET', p..':id:'..id, 'done', 'EX', keep)
if series == '' then return 0 end
local here = series..':'..workspace
local state, numbers, ids = p..':state:'..here, p..':numbers:'..here, p..':ids:'..here
local times, missing = p..':times:'..here, p..':missing:'..here
if floor ~= '' then redis.call('HSETNX', state, 'floor', floor) end
if announced == '1' then redis.call('HSET', state, 'announced', 1) end
redis.call('HSETNX', state, 'known', 1)
if redis.call('HSETNX', ids, sequence, id) == 1 then
  redis.call('ZADD', numbers, sequence, sequence)
  redis.call('ZADD', times, now, sequence)
end
redis.call('HDEL', missing, sequence)
floor = tonumber(redis.call('HGET', state, 'floor') or '')
if floor and tonumber(previous) > floor and not redis.call('ZSCORE', numbers, previous) then
  redis.call('HSETNX', missing, previous, now)
end
redis.call('SADD', p..':spaces', here)
redis.call('SADD', p..':series:'..workspace, series)
for _, key in ipairs({state, numbers, ids, times, missing, p..':series:'..workspace}) do
  redis.call('EXPIRE', key, keep)
end
return 0
"""
RELEASE = """
local key = ARGV[1]..':id:'..ARGV[2]
if redis.call('GET', key) == ARGV[3] then redis.call('DEL', key) end
return 0
"""
SPACES = "return redis.call('SMEMBERS', ARGV[1]..':spaces')"
# number, since, "1" if another series has it; and again
MISSING = """
local p, before, series, workspace = unpack(ARGV)
local found = redis.call('HGETALL', p..':missing:'..series..':'..workspace)
local out = {}
for i = 1, #found, 2 do
  if tonumber(found[i + 1]) <= tonumber(before) then
    local other = ''
    for _, s in ipairs(redis.call('SMEMBERS', p..':series:'..workspace)) do
      if s ~= series and redis.call('ZSCORE', p..':numbers:'..s..':'..workspace, found[i]) then
        other = '1'
      end
    end
    table.insert(out, found[i])
    table.insert(out, found[i + 1])
    table.insert(out, other)
  end
end
return out
"""
# At most 1000 numbers at once; returns how many.
FORGET = """
local p, before, series, workspace = unpack(ARGV)
local here = series..':'..workspace
local state, numbers, times = p..':state:'..here, p..':numbers:'..here, p..':times:'..here
if redis.call('EXISTS', state) == 0 then redis.call('SREM', p..':spaces', here) return 0 end
local old = redis.call('ZRANGEBYSCORE', times, '-inf', '('..before, 'LIMIT', 0, 1000)
local floor = tonumber(redis.call('HGET', state, 'floor') or '')
for _, n in ipairs(old) do
  redis.call('ZREM', numbers, n)
  redis.call('ZREM', times, n)
  redis.call('HDEL', p..':ids:'..here, n)
  if floor and tonumber(n) > floor then
    floor = tonumber(n)
    redis.call('HSET', state, 'floor', n)
  end
end
if #old > 0 and floor then
  for _, n in ipairs(redis.call('HKEYS', p..':missing:'..here)) do
    if tonumber(n) <= floor then redis.call('HDEL', p..':missing:'..here, n) end
  end
end
return #old
"""


class RedisStore(_ClaimStore):
    """`client`: of redis-py, or another with eval(script, number_of_keys, *arguments).

    Redis cannot take part in the transaction of your database. If the process dies after your
    work and before the event is stored as processed, Grapnel sends it again after `lease_s`, and
    your work is done twice. `lease_s` is longer than your work takes."""

    def __init__(self, client: Any, *, prefix: str = "{grapnel}", keep_s: int = KEEP_S,
                 lease_s: int = LEASE_S) -> None:
        self._client = client
        self._prefix = prefix
        self._keep_s = keep_s
        self._lease_s = lease_s

    def _eval(self, script: str, *values: object) -> Any:
        # A key argument tells a cluster which node has all of them.
        return self._client.eval(script, 1, f"{self._prefix}:spaces", self._prefix,
                                 *(v if isinstance(v, bytes) else str(v) for v in values))

    def _space(self, event: Event, numbered: bool) -> tuple[object, ...]:
        if not numbered:
            return "", "", "", ""
        return event.series, _encode(event.workspace), event.sequence, event.previous

    def _claim(self, event: Event, token: str, numbered: bool,
               now_s: int) -> tuple[bool, Facts]:
        said = [_decode(v) for v in self._eval(
            CLAIM, _encode(event.id), token, self._lease_s, *self._space(event, numbered))]
        if said[0] == "busy":
            raise Busy(f"event {event.id} is being processed")
        if not numbered:
            return said[0] == "new", Facts()
        floor, announced, earlier, holder, highest, has_previous, below, named, other = said[1:]
        return said[0] == "new", Facts(
            floor=_number(floor), announced=announced == "1", earlier=earlier == "1",
            holder=holder or None, highest=_number(highest), has_previous=has_previous == "1",
            below=_number(below), named=named == "1", in_other=other == "1")

    def _release(self, event: Event, token: str) -> None:
        self._eval(RELEASE, _encode(event.id), token)

    def _finish(self, event: Event, numbered: bool, floor: Optional[int], announced: bool,
                now_s: int) -> None:
        self._eval(FINISH, _encode(event.id), now_s, self._keep_s,
                   *self._space(event, numbered), "" if floor is None else floor, int(announced))

    def _spaces(self) -> list[tuple[str, str]]:
        found = []
        for entry in self._eval(SPACES):
            series, _, workspace = _decode(entry).partition(":")
            found.append((series, workspace))
        return found

    def missing(self, before_s: int) -> list[Missing]:
        found = []
        for series, workspace in self._spaces():
            said = [_decode(v) for v in self._eval(MISSING, before_s, series, _encode(workspace))]
            found += [Missing(series, workspace, int(number), int(since), other == "1")
                      for number, since, other in zip(said[::3], said[1::3], said[2::3])]
        return sorted(found, key=lambda m: (m.since, m.number))

    def forget(self, before_s: int) -> None:
        """Ids expire by themselves."""
        for series, workspace in self._spaces():
            while int(self._eval(FORGET, before_s, series, _encode(workspace))) == 1000:
                pass


def _encode(text: Optional[str]) -> bytes:
    return (text or "").encode("utf-8", "surrogateescape")


def _decode(value: Any) -> str:
    """A client with decode_responses returns text."""
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)


def _number(text: str) -> Optional[int]:
    return int(text) if text else None
