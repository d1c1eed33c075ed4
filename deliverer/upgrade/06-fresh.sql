-- Rows that have not failed here are few: counted by themselves, so that a
-- start need not look at each of a million that have.
CREATE INDEX tasks_fresh ON tasks (grant_id) WHERE parked = 0;
