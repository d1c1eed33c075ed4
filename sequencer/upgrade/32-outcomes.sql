-- Which process is told what becomes of an event (outcomes.h). Events from before are told to none.
ALTER TABLE events ADD COLUMN subscriber INTEGER;
-- Processes that are told what becomes of the events which they sent (outcomes.h). The log of the
-- link to each has the changes. A message is made of the event's rows when it is sent.
CREATE TABLE subscribers (
  id   INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

-- When the log of a subscriber had reached which number, about once an hour: rows that are older
-- than a week are deleted.
CREATE TABLE outcome_marks (
  subscriber INTEGER NOT NULL,
  n          INTEGER NOT NULL,        -- rows from this one on were written at `at_ms` or later
  at_ms      INTEGER NOT NULL,
  PRIMARY KEY (subscriber, n)
) STRICT, WITHOUT ROWID;

-- What people decided about dead letters of events that have a subscriber.
CREATE TABLE outcome_decisions (
  event      INTEGER NOT NULL,
  endpoint   INTEGER NOT NULL,        -- 0: the event was refused before routing
  generation INTEGER NOT NULL,        -- of the dead letter
  resolved   INTEGER NOT NULL,        -- 0: discarded, or deleted after dlq.keep
  PRIMARY KEY (event, endpoint)
) STRICT, WITHOUT ROWID;

-- The last replay of each event that has a subscriber.
CREATE TABLE outcome_replays (
  event     INTEGER PRIMARY KEY,
  action_id INTEGER NOT NULL
) STRICT;
