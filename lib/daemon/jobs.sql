-- Long work that a process does in small steps (jobs.h), part of the database of each process that
-- has jobs.

CREATE TABLE jobs (
  n          INTEGER PRIMARY KEY AUTOINCREMENT,
  id         TEXT NOT NULL UNIQUE, -- job_…
  kind       TEXT NOT NULL,
  state      TEXT NOT NULL,        -- waiting, running, done, failed, cancelled
  args       TEXT NOT NULL,        -- JSON: what was asked for, and the upper bound
  who        TEXT NOT NULL,        -- "token ops"
  made_ms    INTEGER NOT NULL,
  started_ms INTEGER NOT NULL,     -- 0: it waits
  ended_ms   INTEGER NOT NULL,     -- 0: it has not ended
  position   TEXT NOT NULL,        -- JSON: all before it is done
  total      INTEGER NOT NULL,     -- items; -1: not known (yet)
  done       INTEGER NOT NULL,     -- items that it changed …
  failed     INTEGER NOT NULL,     -- … that it could not change …
  skipped    INTEGER NOT NULL,     -- … and that it left out
  last_item  TEXT NOT NULL,        -- the id of the last one; '': there was none
  last_error TEXT NOT NULL,
  result     TEXT NOT NULL         -- JSON: what its kind reports
) STRICT;
CREATE INDEX jobs_open ON jobs (n) WHERE ended_ms = 0;
