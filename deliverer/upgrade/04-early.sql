-- When an endpoint recovers, what was parked before is tried early.
ALTER TABLE tasks ADD COLUMN
  early_ms INTEGER NOT NULL DEFAULT 0; -- not before, however it recovers
CREATE INDEX tasks_early ON tasks (grant_id, early_ms) WHERE parked = 1;
-- Counted at a start without a look at the rows.
DROP INDEX tasks_due;
CREATE INDEX tasks_due ON tasks (grant_id, next_ms, parked);
