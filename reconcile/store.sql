-- reconcile.db: the events that providers listed and that never arrived, until the sequencer has them and
-- archive.keep has passed; and how far the list of each source was read.

.read lib/archive/archive.sql

-- One row for each source with `reconcile`. A walk reads the list from `from_ms` to `to_ms`, page by page;
-- a row is written with what its page lacked, in one transaction.
CREATE TABLE walks (
  source     TEXT PRIMARY KEY,
  covered_ms INTEGER NOT NULL,         -- up to this time, what the provider listed was compared
  first_ms   INTEGER NOT NULL,         -- no walk begins before this time
  from_ms    INTEGER NOT NULL,
  to_ms      INTEGER NOT NULL,         -- of the walk that is under way; 0: none is
  position   TEXT NOT NULL,            -- what asks for its next page; '': it is at the first one
  pages      INTEGER NOT NULL,         -- of this walk, or of the last one: the pages that were read,
  listed     INTEGER NOT NULL,         -- the events on them,
  found      INTEGER NOT NULL,         -- and those that had never arrived
  due_ms     INTEGER NOT NULL,         -- when the next run begins, wall clock
  ended_ms   INTEGER NOT NULL,         -- when the last walk was complete; 0: none was yet
  error      TEXT NOT NULL,            -- of the last run; '': there was none
  failures   INTEGER NOT NULL          -- how many runs have failed in a row
) STRICT, WITHOUT ROWID;

.read lib/daemon/acts.sql
.read lib/daemon/jobs.sql
.read proto/links.sql
