-- The catalogue of event types (event_types.h). Empty texts: there is no such value.
CREATE TABLE event_types (
  name        TEXT PRIMARY KEY,
  version     INTEGER NOT NULL,       -- another one with each change; never used twice
  description TEXT NOT NULL,
  example     TEXT NOT NULL,          -- JSON
  schema      TEXT NOT NULL,          -- a JSON Schema
  created_ms  INTEGER NOT NULL,
  changed_ms  INTEGER NOT NULL,
  changed_by  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
