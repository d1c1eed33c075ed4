-- Endpoints that were made at run time (managed_endpoints.h), by their id in `endpoints`.
CREATE TABLE managed_endpoints (
  id          INTEGER PRIMARY KEY,
  version     INTEGER NOT NULL,           -- 1, and one more with each change
  workspace   TEXT NOT NULL,              -- the only one whose events it gets; '': it has several or all
  description TEXT NOT NULL,              -- for people
  settings    TEXT NOT NULL,              -- JSON (endpoint_document.h), null in the place of each secret
  secrets     BLOB NOT NULL,              -- JSON of the same shape, sealed (sealed.h); empty: none
  secrets_key TEXT NOT NULL,              -- the id of the key that sealed them; '': none
  retire_ms   INTEGER NOT NULL,           -- when all but its first signing secret end; 0: never
  created_ms  INTEGER NOT NULL,
  created_by  TEXT NOT NULL,
  changed_ms  INTEGER NOT NULL
) STRICT;
CREATE INDEX managed_endpoints_workspace ON managed_endpoints(workspace, id);
CREATE INDEX managed_endpoints_key ON managed_endpoints(secrets_key, id)
  WHERE secrets_key <> '';
CREATE INDEX managed_endpoints_retire ON managed_endpoints(retire_ms)
  WHERE retire_ms > 0;
