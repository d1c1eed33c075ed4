-- New names of tables and columns.
ALTER TABLE tasks RENAME COLUMN parked TO retrying;
DROP INDEX IF EXISTS tasks_fresh;
CREATE INDEX tasks_untried ON tasks (grant_id) WHERE retrying = 0;
ALTER TABLE grants RENAME COLUMN drained_n TO released_n;
