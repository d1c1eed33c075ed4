-- dlqd's own tables. proto/hop.sql follows as the next step.

-- One row for each delivery that failed for good, whatever became of it since.
-- `state` holds a name of letter_states (letter.c).
CREATE TABLE letters (
  n                INTEGER PRIMARY KEY,
  id               TEXT NOT NULL UNIQUE,  -- dlq_…, the same in every life
  life             INTEGER NOT NULL,
  state            TEXT NOT NULL,
  sequencer        TEXT NOT NULL,         -- who sent it and takes it back
  event_id         TEXT NOT NULL,
  endpoint         TEXT,                  -- NULL: refused before routing
  reason           TEXT NOT NULL,
  source           TEXT NOT NULL,
  provider_id      TEXT NOT NULL,
  type             TEXT NOT NULL,
  workspace        TEXT NOT NULL,
  received_ms      INTEGER NOT NULL,
  sequence         INTEGER NOT NULL,      -- 0: it had none
  previous         INTEGER NOT NULL,
  clock            TEXT NOT NULL,
  attempts         INTEGER NOT NULL,      -- in all lives
  first_ms         INTEGER NOT NULL,      -- 0: never tried
  dead_ms          INTEGER NOT NULL,
  last_http_status INTEGER NOT NULL,      -- 0: none
  last_error       TEXT NOT NULL,
  last_response    BLOB NOT NULL,
  moved_ms         INTEGER NOT NULL,      -- when it came into this state
  note             TEXT NOT NULL DEFAULT '' -- of who resolved or discarded it
) STRICT;

-- The list, newest first. All that a list filters by is in the index, so that
-- a scan past a million letters touches none of them.
CREATE INDEX letters_newest ON letters
  (state, dead_ms, n, endpoint, workspace, type, reason, source);
CREATE INDEX letters_by_event ON letters (event_id);
CREATE INDEX letters_by_age ON letters (state, moved_ms);

-- How many letters there are of each kind, so that nobody has to count them:
-- kept by triggers, in the transaction of the change. Endpoint '' is none.
CREATE TABLE tallies (
  state    TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  reason   TEXT NOT NULL,
  count    INTEGER NOT NULL,
  PRIMARY KEY (state, endpoint, reason)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER letters_come AFTER INSERT ON letters BEGIN
  INSERT INTO tallies VALUES (new.state, ifnull(new.endpoint, ''), new.reason, 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;
CREATE TRIGGER letters_go AFTER DELETE ON letters BEGIN
  UPDATE tallies SET count = count - 1 WHERE state = old.state AND
    endpoint = ifnull(old.endpoint, '') AND reason = old.reason;
END;
CREATE TRIGGER letters_change AFTER UPDATE OF state, reason ON letters BEGIN
  UPDATE tallies SET count = count - 1 WHERE state = old.state AND
    endpoint = ifnull(old.endpoint, '') AND reason = old.reason;
  INSERT INTO tallies VALUES (new.state, ifnull(new.endpoint, ''), new.reason, 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;

-- What a retry sends. Beside the letters, so that neither a list nor a change
-- of state ever moves a body.
CREATE TABLE contents (
  letter  INTEGER PRIMARY KEY REFERENCES letters (n),
  headers BLOB NOT NULL,
  body    BLOB NOT NULL
) STRICT;

-- Each change of a letter's state, for ever as long as the letter.
CREATE TABLE history (
  n          INTEGER PRIMARY KEY,
  letter     INTEGER NOT NULL REFERENCES letters (n),
  at_ms      INTEGER NOT NULL,
  from_state TEXT NOT NULL,               -- '': it came
  to_state   TEXT NOT NULL,
  what       TEXT NOT NULL
) STRICT;
CREATE INDEX history_by_letter ON history (letter);

-- The sequencer is told that nobody waits for a letter any more (its lane may be
-- halted by it). All that the message says, as the letter itself may be gone
-- when it leaves. Goes when it is acknowledged.
CREATE TABLE decisions (
  n         INTEGER PRIMARY KEY AUTOINCREMENT,
  hop_n     INTEGER NOT NULL,             -- 0: the hop hasn't got it yet
  sequencer TEXT NOT NULL,
  letter_id TEXT NOT NULL,
  life      INTEGER NOT NULL,
  event_id  TEXT NOT NULL,
  endpoint  TEXT NOT NULL,
  what      TEXT NOT NULL
) STRICT;

-- A requeue on its way: what the hop's log points at. It names the life in
-- which the letter was dead, since the letter itself may be in another by the
-- time the message leaves. It goes when the letter leaves the state requeued;
-- the hop's log then sends nothing in its place. `handed` 0: the hop hasn't got
-- it yet (said again after a restore). Never a number twice: the log may still
-- point at an old one.
CREATE TABLE requeues (
  n      INTEGER PRIMARY KEY AUTOINCREMENT,
  letter INTEGER NOT NULL,
  life   INTEGER NOT NULL,
  handed INTEGER NOT NULL
) STRICT;
CREATE INDEX requeues_by_letter ON requeues (letter);
CREATE INDEX requeues_unhanded ON requeues (n) WHERE handed = 0;
