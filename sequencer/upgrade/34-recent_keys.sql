-- New idempotency keys are stored in the order of arrival, and moved to `keys` in batches
-- (sequencer/intake/recent_keys.h). The keys that there are stay where they are.
CREATE TABLE recent_keys (
  n    INTEGER PRIMARY KEY,
  keys BLOB NOT NULL
) STRICT;
