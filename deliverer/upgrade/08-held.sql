-- How long the endpoint had been held in all when the task's `first_ms` was true
-- (hold.h); NULL: not known, and none of it is taken out of the budget.
ALTER TABLE tasks ADD COLUMN held_ms INTEGER;
