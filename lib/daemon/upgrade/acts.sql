-- The audit rows and idempotency records of acts.

CREATE TABLE audit (
  n          INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ms      INTEGER NOT NULL,
  actor      TEXT NOT NULL,
  role       TEXT NOT NULL,
  command    TEXT NOT NULL,
  args       TEXT NOT NULL,
  outcome    TEXT NOT NULL,
  request_id TEXT NOT NULL
) STRICT;

CREATE TABLE idempotency (
  id     INTEGER PRIMARY KEY,
  owner  TEXT NOT NULL,
  key    TEXT NOT NULL,
  digest TEXT NOT NULL,
  at_ms  INTEGER NOT NULL,
  reply  TEXT NOT NULL,
  UNIQUE (owner, key)
) STRICT;
CREATE INDEX idempotency_at ON idempotency (at_ms);
