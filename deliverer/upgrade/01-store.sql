-- deliverer.db: the work this deliverer has taken and not ended, and what each
-- attempt came to. The durable hop's tables (proto/hop.sql) are the next step.

-- Made once with the file: `id` is how the sequencer knows that a deliverer of
-- this name has lost its disk. One row.
CREATE TABLE meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  id  INTEGER NOT NULL
) STRICT;

-- Numbers past the hop's place that are on disk already (settle.h). One row.
CREATE TABLE settled (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  ahead BLOB NOT NULL
) STRICT;

-- Unfinished: taken, and not ended at once. What was in flight at a crash is a
-- row like any other: it is tried again, with the same webhook-id.
CREATE TABLE tasks (
  n        INTEGER PRIMARY KEY,
  grant_id INTEGER NOT NULL,
  event_id TEXT NOT NULL,
  attempts INTEGER NOT NULL,   -- made so far, in all lives
  first_ms INTEGER NOT NULL,   -- of this life; 0: none yet
  next_ms  INTEGER NOT NULL,   -- due
  parked   INTEGER NOT NULL,   -- 1: it failed here and waits for its next try
  message  BLOB NOT NULL       -- the task as it came
) STRICT;
-- What is due, found without looking at another grant's rows.
CREATE INDEX tasks_due ON tasks (grant_id, next_ms);
CREATE INDEX tasks_event ON tasks (event_id);

-- One row while a grant is ours, and after that until its end is told and its
-- tasks are purged.
CREATE TABLE grants (
  id        INTEGER PRIMARY KEY,
  endpoint  TEXT NOT NULL,
  state     INTEGER NOT NULL,  -- enum grant_state (grants.h)
  drained_n INTEGER NOT NULL   -- number of its `drained` in the hop's log
) STRICT;

-- Every attempt, kept for history.keep; the hop's log of results points here.
CREATE TABLE attempts (
  n           INTEGER PRIMARY KEY,
  attempt_id  INTEGER NOT NULL,  -- 0: nothing was tried (released)
  grant_id    INTEGER NOT NULL,
  endpoint    TEXT NOT NULL,
  event_id    TEXT NOT NULL,
  outcome     INTEGER NOT NULL,  -- enum outcome (schema.h)
  http_status INTEGER NOT NULL,
  error       TEXT NOT NULL,
  reason      TEXT NOT NULL,
  at_ms       INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  attempts    INTEGER NOT NULL,
  first_ms    INTEGER NOT NULL,
  next_ms     INTEGER NOT NULL,
  response    BLOB NOT NULL,
  hop_n       INTEGER NOT NULL   -- number of its result in the hop's log
) STRICT;
-- Event ids ascend nearly, so this grows at its end.
CREATE INDEX attempts_event ON attempts (event_id);
