-- dlqd.db: the dead letters.

-- One row for each delivery that became a dead letter, in any state.
CREATE TABLE dead_letters (
  n                INTEGER PRIMARY KEY,
  id               TEXT NOT NULL UNIQUE,  -- dlq_…, the same in every generation
  generation       INTEGER NOT NULL,
  state            TEXT NOT NULL,         -- a name of dead_letter_states (dead_letter.c)
  sequencer        TEXT NOT NULL,         -- the process that sent it and gets it back
  event_id         TEXT NOT NULL,
  endpoint         TEXT,                  -- NULL: the event was refused before routing
  reason           TEXT NOT NULL,
  source           TEXT NOT NULL,
  provider_id      TEXT NOT NULL,
  type             TEXT NOT NULL,
  workspace        TEXT NOT NULL,
  received_ms      INTEGER NOT NULL,
  sequence         INTEGER NOT NULL,      -- 0: the event has none
  previous         INTEGER NOT NULL,
  clock            TEXT NOT NULL,
  attempts         INTEGER NOT NULL,      -- in all generations
  first_ms         INTEGER NOT NULL,      -- the first attempt; 0: there was none
  dead_ms          INTEGER NOT NULL,
  last_http_status INTEGER NOT NULL,      -- 0: there was no response
  last_error       TEXT NOT NULL,
  last_response    BLOB NOT NULL,
  moved_ms         INTEGER NOT NULL,      -- when `state` last changed
  note             TEXT NOT NULL DEFAULT '', -- of the person who resolved or discarded it
  sum              INTEGER                -- checksum (db_sums.h); NULL: made before there were any
) STRICT;
-- For lists, newest first: it has all columns by which a list filters, so that a scan past a
-- million dead letters reads the index alone.
CREATE INDEX dead_letters_newest ON dead_letters
  (state, dead_ms, n, endpoint, workspace, type, reason, source);
CREATE INDEX dead_letters_by_event ON dead_letters (event_id);
CREATE INDEX dead_letters_by_age ON dead_letters (state, moved_ms);

-- How many dead letters there are of each kind. Triggers count them in the transaction of the
-- change. Endpoint '': the event was refused before routing.
CREATE TABLE tallies (
  state    TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  reason   TEXT NOT NULL,
  count    INTEGER NOT NULL,
  PRIMARY KEY (state, endpoint, reason)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER dead_letters_come AFTER INSERT ON dead_letters BEGIN
  INSERT INTO tallies(state, endpoint, reason, count)
    VALUES (new.state, ifnull(new.endpoint, ''), new.reason, 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;
CREATE TRIGGER dead_letters_go AFTER DELETE ON dead_letters BEGIN
  UPDATE tallies SET count = count - 1 WHERE state = old.state AND
    endpoint = ifnull(old.endpoint, '') AND reason = old.reason;
END;
CREATE TRIGGER dead_letters_change AFTER UPDATE OF state, reason ON dead_letters BEGIN
  UPDATE tallies SET count = count - 1 WHERE state = old.state AND
    endpoint = ifnull(old.endpoint, '') AND reason = old.reason;
  INSERT INTO tallies(state, endpoint, reason, count)
    VALUES (new.state, ifnull(new.endpoint, ''), new.reason, 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;

-- What a retry sends: in a table of its own, so that neither a list nor a change of state
-- reads a body.
CREATE TABLE contents (
  dead_letter INTEGER PRIMARY KEY REFERENCES dead_letters (n),
  headers     BLOB NOT NULL,
  body        BLOB NOT NULL,
  sum         INTEGER                     -- checksum, as above
) STRICT;

-- Each change of a dead letter's state. Rows are kept as long as their dead letter.
CREATE TABLE history (
  n           INTEGER PRIMARY KEY,
  dead_letter INTEGER NOT NULL REFERENCES dead_letters (n),
  at_ms       INTEGER NOT NULL,
  from_state  TEXT NOT NULL,              -- '': the dead letter was new
  to_state    TEXT NOT NULL,
  what        TEXT NOT NULL
) STRICT;
CREATE INDEX history_by_dead_letter ON history (dead_letter);

-- Requeues on their way to the sequencer: the link's log refers to these rows. A row names the
-- generation in which the dead letter was dead, as the dead letter may be in a later one when the
-- message is sent. It is deleted when the dead letter leaves the state `requeued`; the log then
-- sends nothing in its place. AUTOINCREMENT: the log may still refer to a deleted row.
CREATE TABLE requeues (
  n           INTEGER PRIMARY KEY AUTOINCREMENT,
  dead_letter INTEGER NOT NULL,
  generation  INTEGER NOT NULL,
  handed      INTEGER NOT NULL            -- 0: not in the log yet (sent again after a restore)
) STRICT;
CREATE INDEX requeues_by_dead_letter ON requeues (dead_letter);
CREATE INDEX requeues_unhanded ON requeues (n) WHERE handed = 0;

-- Dead letters on their way to another endpoint: the link's log refers to these rows. The dead
-- letter is resolved, and keeps its content until the sequencer has acknowledged the message. A row
-- is kept as long as its dead letter, so that it can be sent again after the sequencer is restored
-- from an older copy.
CREATE TABLE redirects (
  n           INTEGER PRIMARY KEY AUTOINCREMENT,
  link_n      INTEGER NOT NULL,           -- number in the log; 0: not yet; -1: acknowledged
  sequencer   TEXT NOT NULL,
  dead_letter INTEGER NOT NULL,
  endpoint    TEXT NOT NULL,              -- the other endpoint
  action_id   INTEGER NOT NULL            -- 64 random bits: the sequencer applies it once
) STRICT;
CREATE INDEX redirects_by_dead_letter ON redirects (dead_letter);
CREATE INDEX redirects_on_way ON redirects (n) WHERE link_n >= 0;

-- Messages to the sequencer that an operator has decided about a dead letter, so that a lane that
-- it halts continues. A row has all that the message needs, as the dead letter may be deleted before
-- it is sent. The row is deleted when the sequencer has acknowledged the message.
CREATE TABLE decisions (
  n              INTEGER PRIMARY KEY AUTOINCREMENT,
  link_n         INTEGER NOT NULL,        -- number in the log; 0: not yet
  sequencer      TEXT NOT NULL,
  dead_letter_id TEXT NOT NULL,
  generation     INTEGER NOT NULL,
  event_id       TEXT NOT NULL,
  endpoint       TEXT NOT NULL,
  what           TEXT NOT NULL
) STRICT;

-- One row: dead letters from before `since_ms` (wall clock) are not counted as new ones (0: all
-- are). It is the time at which this database was made or restored, because the sequencer then
-- sends the dead letters of the last day again.
CREATE TABLE counted (
  one      INTEGER PRIMARY KEY CHECK (one = 1),
  since_ms INTEGER NOT NULL
) STRICT;
INSERT INTO counted(one, since_ms)
  VALUES (1, CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER));

.read lib/daemon/acts.sql
.read lib/daemon/jobs.sql
.read proto/links.sql
