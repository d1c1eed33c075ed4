.read lib/daemon/upgrade/acts.sql

CREATE TABLE tokens (
  id           TEXT PRIMARY KEY,
  name         TEXT NOT NULL,
  role         TEXT NOT NULL,
  sha256       BLOB NOT NULL UNIQUE,
  created_ms   INTEGER NOT NULL,
  created_by   TEXT NOT NULL,
  last_used_ms INTEGER NOT NULL,
  expires_ms   INTEGER NOT NULL,
  revoked_ms   INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX tokens_name ON tokens (name) WHERE revoked_ms = 0;
