"""Stores in SQLite and PostgreSQL: the event's id, its number and your work are one transaction."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any, Callable, Iterator, Optional, Sequence, Union

from .events import DUPLICATE, OK, Check, Event, Facts, Missing, decide
from .stores import Store

SCHEMA = (
    """CREATE TABLE IF NOT EXISTS grapnel_events (
  id TEXT PRIMARY KEY, received_s BIGINT NOT NULL)""",
    """CREATE TABLE IF NOT EXISTS grapnel_series (
  workspace TEXT NOT NULL, series TEXT NOT NULL,
  floor BIGINT, announced INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (workspace, series))""",
    """CREATE TABLE IF NOT EXISTS grapnel_numbers (
  workspace TEXT NOT NULL, series TEXT NOT NULL, sequence BIGINT NOT NULL,
  previous BIGINT NOT NULL, id TEXT NOT NULL, received_s BIGINT NOT NULL,
  PRIMARY KEY (workspace, series, sequence))""",
    """CREATE INDEX IF NOT EXISTS grapnel_numbers_previous
  ON grapnel_numbers (workspace, series, previous)""",
    "CREATE INDEX IF NOT EXISTS grapnel_numbers_received ON grapnel_numbers (received_s)",
    "CREATE INDEX IF NOT EXISTS grapnel_events_received ON grapnel_events (received_s)",
)
TAKE_ID = "INSERT INTO grapnel_events (id, received_s) VALUES (?, ?) ON CONFLICT DO NOTHING"
SERIES = "SELECT floor, announced FROM grapnel_series WHERE workspace = ? AND series = ?"
ADD_SERIES = ("INSERT INTO grapnel_series (workspace, series) VALUES (?, ?) "
              "ON CONFLICT DO NOTHING")
SET_SERIES = ("UPDATE grapnel_series SET floor = ?, announced = ? "
              "WHERE workspace = ? AND series = ?")
ADD_NUMBER = """INSERT INTO grapnel_numbers (workspace, series, sequence, previous, id, received_s)
VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING"""
HERE = "FROM grapnel_numbers WHERE workspace = ? AND series = ?"
OTHERS = "FROM grapnel_series s WHERE s.workspace = ? AND s.series <> ?"
FACTS = f"""SELECT (SELECT id {HERE} AND sequence = ?) AS holder,
  (SELECT max(sequence) {HERE}) AS highest,
  EXISTS (SELECT 1 {HERE} AND sequence = ?) AS has_previous,
  (SELECT max(sequence) {HERE} AND sequence < ?) AS below,
  EXISTS (SELECT 1 {HERE} AND previous = ?) AS named,
  EXISTS (SELECT 1 {OTHERS} AND s.floor IS NOT NULL) AS earlier,
  EXISTS (SELECT 1 {OTHERS} AND EXISTS (SELECT 1 FROM grapnel_numbers n
    WHERE n.workspace = s.workspace AND n.series = s.series AND n.sequence = ?)) AS in_other"""
MISSING = """SELECT n.series, n.workspace, n.previous, min(n.received_s) AS since_s,
  EXISTS (SELECT 1 FROM grapnel_numbers o WHERE o.workspace = n.workspace
          AND o.sequence = n.previous AND o.series <> n.series) AS in_other
FROM grapnel_numbers n JOIN grapnel_series s ON s.workspace = n.workspace AND s.series = n.series
WHERE n.previous > s.floor AND NOT EXISTS (SELECT 1 FROM grapnel_numbers p
  WHERE p.workspace = n.workspace AND p.series = n.series AND p.sequence = n.previous)
GROUP BY n.series, n.workspace, n.previous HAVING min(n.received_s) <= ?
ORDER BY min(n.received_s), n.previous"""
# Numbers up to the highest deleted one count as arrived.
RAISE_FLOOR = """UPDATE grapnel_series SET floor = (
  SELECT max(n.sequence) FROM grapnel_numbers n WHERE n.workspace = grapnel_series.workspace
  AND n.series = grapnel_series.series AND n.received_s < ?)
WHERE floor < (SELECT max(n.sequence) FROM grapnel_numbers n
  WHERE n.workspace = grapnel_series.workspace AND n.series = grapnel_series.series
  AND n.received_s < ?)"""
AUTOCOMMIT = ("the connection has autocommit and no open transaction, so the event and your work would "
              "not be stored together: begin a transaction")
FORGET = ("DELETE FROM grapnel_numbers WHERE received_s < ?",
          "DELETE FROM grapnel_events WHERE received_s < ?")


def _values(row: Any) -> Any:
    """Your connection may return rows as dictionaries."""
    return tuple(row.values()) if isinstance(row, dict) else row


class _SQLStore(Store):
    """`_mark` stands for a value, `_lock` keeps other transactions from the row. Both events of a
    pair would else be `ok` although the later one was processed first."""

    _mark = "?"
    _lock = ""

    def _run(self, connection: Any, sql: str, values: Sequence[Any] = ()) -> Any:
        cursor = connection.cursor()
        cursor.execute(sql.replace("?", self._mark), tuple(values))
        return cursor

    def _row(self, connection: Any, sql: str, values: Sequence[Any]) -> Any:
        cursor = self._run(connection, sql, values)
        try:
            return _values(cursor.fetchone())
        finally:
            cursor.close()

    def _change(self, connection: Any, sql: str, values: Sequence[Any]) -> int:
        cursor = self._run(connection, sql, values)
        try:
            return int(cursor.rowcount)
        finally:
            cursor.close()

    def _transaction(self) -> contextlib.AbstractContextManager[Any]:
        raise NotImplementedError

    def create_tables(self) -> None:
        """Creates what is not there yet. Or put the statements of `SCHEMA` into a migration."""
        with self._transaction() as connection:
            for statement in SCHEMA:
                self._run(connection, statement).close()

    def process(self, event: Event, now_s: int, order: bool,
                handle: Callable[[Event, Check, Any], None]) -> Check:
        with self._transaction() as connection:
            check = self.check(event, now_s, order, connection)
            if check.first:
                handle(event, check, connection)
            return check

    def _must_be_open(self, connection: Any) -> None:
        """Raises ValueError if each statement would be a transaction of its own."""
        raise NotImplementedError

    def check(self, event: Event, now_s: int, order: bool, connection: Any) -> Check:
        self._must_be_open(connection)
        # Waits for a transaction that has the same id, until that one has ended.
        first = self._change(connection, TAKE_ID, (event.id, now_s)) == 1
        if not order or not event.numbered:
            return Check(OK if first else DUPLICATE)
        here = (event.workspace, event.series)
        row = self._row(connection, SERIES + self._lock, here)
        if row is None:
            self._change(connection, ADD_SERIES, here)
            row = self._row(connection, SERIES + self._lock, here)
        facts = self._facts(connection, event, row)
        decision = decide(event, first, facts)
        self._change(connection, ADD_NUMBER,
                     (*here, event.sequence, event.previous, event.id, now_s))
        if (decision.floor, decision.announced) != (facts.floor, facts.announced):
            self._change(connection, SET_SERIES,
                         (decision.floor, int(decision.announced), *here))
        return decision.check

    def _facts(self, connection: Any, event: Event, series: Any) -> Facts:
        here = (event.workspace, event.series)
        holder, highest, has_previous, below, named, earlier, in_other = self._row(
            connection, FACTS, (*here, event.sequence, *here, *here, event.previous, *here,
                                event.previous, *here, event.sequence, *here, *here,
                                event.previous))
        return Facts(floor=series[0], announced=bool(series[1]), earlier=bool(earlier),
                     holder=holder, highest=highest, has_previous=bool(has_previous),
                     below=below, named=bool(named), in_other=bool(in_other))

    def missing(self, before_s: int) -> list[Missing]:
        with self._transaction() as connection:
            cursor = self._run(connection, MISSING, (before_s,))
            try:
                return [Missing(row[0], row[1], row[2], row[3], bool(row[4]))
                        for row in map(_values, cursor.fetchall())]
            finally:
                cursor.close()

    def forget(self, before_s: int) -> None:
        with self._transaction() as connection:
            self._change(connection, RAISE_FLOOR, (before_s, before_s))
            for statement in FORGET:
                self._change(connection, statement, (before_s,))


class SQLiteStore(_SQLStore):
    """`database`: a path, or a function that returns a new sqlite3 connection. Each event has a
    connection of its own, which is closed after it."""

    def __init__(self, database: Union[str, Callable[[], sqlite3.Connection]]):
        self._database = database

    def _connect(self) -> sqlite3.Connection:
        if callable(self._database):
            return self._database()
        connection = sqlite3.connect(self._database, timeout=30)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _must_be_open(self, connection: Any) -> None:
        if connection.isolation_level is None and not connection.in_transaction:
            raise ValueError(AUTOCOMMIT)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        connection = self._connect()
        try:
            connection.isolation_level = None
            # Writers wait here. A transaction that begins to write later could fail instead.
            connection.execute("BEGIN IMMEDIATE")
            yield connection
            connection.execute("COMMIT")
        finally:
            connection.close()  # rolls back what is not committed


class PostgresStore(_SQLStore):
    """For psycopg2, psycopg 3, or another driver with DB-API 2 and `%s`. `connect` returns a
    connection without autocommit; `release` gets it back, closed by default. With a pool:
    PostgresStore(pool.getconn, pool.putconn)."""

    _mark = "%s"
    _lock = " FOR UPDATE"

    def __init__(self, connect: Callable[[], Any], release: Optional[Callable[[Any], object]] = None):
        self._connect = connect
        self._release = release or (lambda connection: connection.close())

    def _must_be_open(self, connection: Any) -> None:
        # psycopg: 0 is "idle". With autocommit, a transaction may still have been begun.
        info = getattr(connection, "info", None)
        if getattr(connection, "autocommit", False) and getattr(info, "transaction_status", 0) == 0:
            raise ValueError(AUTOCOMMIT)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        connection = self._connect()
        try:
            try:
                yield connection
                connection.commit()
            except BaseException:
                with contextlib.suppress(Exception):  # the connection may be broken
                    connection.rollback()
                raise
        finally:
            self._release(connection)
