-- outbox.db: the events that were made of rows of applications' tables, until the sequencer has them
-- and archive.keep has passed; and what is still to be written to these rows.

.read lib/archive/archive.sql

-- Outcomes that are to be written to rows of the applications' tables. A later outcome of an event
-- replaces an earlier one.
CREATE TABLE outcomes (
  event_id  TEXT PRIMARY KEY,
  n         INTEGER NOT NULL,          -- ascends with each change
  relay     TEXT NOT NULL,
  row_id    TEXT NOT NULL,
  status    INTEGER NOT NULL,          -- enum driver_status
  retries   INTEGER NOT NULL,
  last_ms   INTEGER NOT NULL,          -- the last attempt; 0: there was none
  next_ms   INTEGER NOT NULL,          -- the next attempt; 0: none is scheduled
  error     TEXT NOT NULL,             -- '': none
  action_id INTEGER NOT NULL,          -- the last replay of the event
  -- What the row did not take is written again later.
  refused   INTEGER NOT NULL,          -- 1: the database refused it; it is written by itself
  waits     INTEGER NOT NULL,          -- how often it was put off
  due_ms    INTEGER NOT NULL           -- not before this time of the machine's uptime; at a start all are due
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX outcomes_relay ON outcomes (relay, refused, due_ms, n);

-- Events whose final outcome is in their row. A row of the application's table that is new again,
-- and whose event is here, was reset by a person: it is sent again.
CREATE TABLE ended (
  event_id  TEXT PRIMARY KEY,
  archived  INTEGER NOT NULL,          -- `n` of its request in the archive
  action_id INTEGER NOT NULL,          -- the last replay that this outcome was about
  again     INTEGER NOT NULL           -- 1: it was sent again; outcomes with this action_id are older
) STRICT, WITHOUT ROWID;
CREATE INDEX ended_archived ON ended (archived);

.read lib/daemon/acts.sql
.read lib/daemon/jobs.sql
.read proto/links.sql
