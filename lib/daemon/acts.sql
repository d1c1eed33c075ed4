-- What acts leave (acts.h), part of each process's database.

-- One row for each act. An act that replies later has one with the outcome `started` as well.
CREATE TABLE audit (
  n          INTEGER PRIMARY KEY AUTOINCREMENT,
  at_ms      INTEGER NOT NULL,
  actor      TEXT NOT NULL,    -- "user root", "token ops"
  role       TEXT NOT NULL,    -- of the token; '': the actor needed none
  command    TEXT NOT NULL,
  args       TEXT NOT NULL,    -- JSON, at most 4 KiB, without secrets
  outcome    TEXT NOT NULL,    -- done, started, or the error
  request_id TEXT NOT NULL     -- of the HTTP request; '': there was none
) STRICT;

-- The reply of each act that had an idempotency key, for 24 hours.
CREATE TABLE idempotency (
  id     INTEGER PRIMARY KEY,
  owner  TEXT NOT NULL,        -- to whom the key belongs: the id of a token
  key    TEXT NOT NULL,
  digest TEXT NOT NULL,        -- SHA-256 of the request
  at_ms  INTEGER NOT NULL,
  reply  TEXT NOT NULL,        -- the reply's JSON document, without secrets
  UNIQUE (owner, key)
) STRICT;
CREATE INDEX idempotency_at ON idempotency (at_ms);
