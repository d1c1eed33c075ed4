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
  request_id TEXT NOT NULL,    -- of the HTTP request; '': there was none
  -- The chain (audit_chain.h); all NULL in rows from before there was a chain:
  salt       BLOB,             -- 16 random bytes; NULL: the content was erased
  content    BLOB,             -- the keyed hash of number, salt and content
  hash       BLOB,             -- the keyed hash of the row and the row before
  key        TEXT,             -- the id of the key
  erased     BLOB              -- of an erased row: the keyed hash that confirms the erasure
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

-- Where the chain of audit rows begins (audit_chain.h). One row, from the first start on.
CREATE TABLE audit_anchor (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  n     INTEGER NOT NULL,      -- the number of the last row before the chain; 0: there was none
  hash  BLOB NOT NULL,         -- of that row; zeros: it had none
  at_ms INTEGER NOT NULL,      -- when it became the anchor
  older INTEGER NOT NULL,      -- 1: there may be rows from before there was a chain
  key   TEXT NOT NULL,         -- the id of the key of `mac`
  mac   BLOB NOT NULL          -- the keyed hash of the other columns
) STRICT;
