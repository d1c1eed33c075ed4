-- The last operational event (operational_events.h) of each subject and type in this minute, and
-- the newest one that was left out because there is at most one a minute.
CREATE TABLE operational_limits (
  subject   TEXT NOT NULL,
  type      TEXT NOT NULL,
  at_ms     INTEGER NOT NULL,         -- when the last one was written
  left_out  INTEGER NOT NULL,         -- how many were left out since
  id        TEXT NOT NULL,            -- of the newest of these: its id, …
  workspace TEXT NOT NULL,
  hops      INTEGER NOT NULL,
  data      TEXT NOT NULL,            -- … and its data, as JSON
  PRIMARY KEY (subject, type)
) STRICT, WITHOUT ROWID;
