-- Order: streams, what they hold back, what is missing in them, the states of
-- objects, and idempotency keys in generations.

ALTER TABLE events ADD COLUMN source_sequence INTEGER; -- the source's number
ALTER TABLE events ADD COLUMN late INTEGER;            -- 1: behind its stream
ALTER TABLE events ADD COLUMN gap TEXT;    -- "3-5": let go past these numbers
ALTER TABLE events ADD COLUMN note TEXT;   -- what order.observe saw

-- A stream is a (source, workspace), or one type of it.
CREATE TABLE streams (
  id        INTEGER PRIMARY KEY,
  source    TEXT NOT NULL,
  workspace TEXT NOT NULL,
  type      TEXT NOT NULL,             -- '': all of them
  kind      INTEGER NOT NULL,          -- enum order_by
  next      INTEGER NOT NULL,          -- what may go next; all below has gone
  high      INTEGER NOT NULL,          -- the highest that was seen
  held      INTEGER NOT NULL DEFAULT 0 -- rows in `buffer`
) STRICT;
CREATE UNIQUE INDEX streams_name ON streams(source, workspace, type, kind);
CREATE INDEX streams_held ON streams(id) WHERE held > 0;
CREATE INDEX streams_workspace ON streams(workspace) WHERE held > 0;

-- What is held back. With `order.observe` only that it would have been.
CREATE TABLE buffer (
  stream   INTEGER NOT NULL,
  place    INTEGER NOT NULL,           -- number, or time in µs
  event    INTEGER NOT NULL,
  observed INTEGER NOT NULL,           -- 1: it has gone already
  due      INTEGER NOT NULL,           -- with times: when it may go (door time)
  PRIMARY KEY (stream, place, event)
) STRICT, WITHOUT ROWID;
CREATE INDEX buffer_due ON buffer(due) WHERE due > 0;

-- Numbers that are missing. Those of one stream never overlap.
CREATE TABLE gaps (
  id        INTEGER PRIMARY KEY,
  stream    INTEGER NOT NULL,
  source    TEXT NOT NULL,
  workspace TEXT NOT NULL,
  type      TEXT NOT NULL,
  first     INTEGER NOT NULL,
  last      INTEGER NOT NULL,
  status    INTEGER NOT NULL,          -- enum gap_status
  opened_ms INTEGER NOT NULL,
  closed_ms INTEGER NOT NULL DEFAULT 0,
  note      TEXT NOT NULL DEFAULT '',
  due       INTEGER NOT NULL           -- when its wait is over (door time)
) STRICT;
CREATE INDEX gaps_place ON gaps(stream, first);
CREATE INDEX gaps_due ON gaps(due) WHERE status = 0;
CREATE INDEX gaps_workspace ON gaps(workspace) WHERE status = 0;
CREATE INDEX gaps_opened ON gaps(opened_ms) WHERE status = 0;
CREATE INDEX gaps_closed ON gaps(closed_ms) WHERE status <> 0;

-- Who we take events from.
CREATE TABLE doors (
  name TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- The state that each object's last valid move left it in.
CREATE TABLE objects (
  source    TEXT NOT NULL,
  workspace TEXT NOT NULL,
  object    TEXT NOT NULL,
  state     TEXT NOT NULL,
  moved_ms  INTEGER NOT NULL,
  last      INTEGER NOT NULL,          -- 1: no move leads on: may be forgotten
  PRIMARY KEY (source, workspace, object)
) STRICT, WITHOUT ROWID;
CREATE INDEX objects_last ON objects(moved_ms) WHERE last = 1;

-- Idempotency keys (keys.c): the row's id is the number of its generation and
-- 48 bits of the key, so that what is written now is one small part of the table.
DROP TABLE keys;
CREATE TABLE keys (
  k           INTEGER PRIMARY KEY,
  rest        INTEGER NOT NULL,        -- 48 more bits of the key
  event       INTEGER NOT NULL,
  received_ms INTEGER NOT NULL
) STRICT;
CREATE TABLE key_generations (
  id      INTEGER PRIMARY KEY,
  class   INTEGER NOT NULL,            -- by how long its keys are kept
  count   INTEGER NOT NULL,
  made_ms INTEGER NOT NULL,
  over_ms INTEGER NOT NULL,            -- receive time after which none counts
  closed  INTEGER NOT NULL,            -- 1: no more keys come
  filter  BLOB                         -- of a closed one
) STRICT;
