-- What consumers of pull endpoints have taken (deliverer/pull/takes.h).
CREATE TABLE takes (
  n        INTEGER PRIMARY KEY AUTOINCREMENT,
  id       TEXT NOT NULL UNIQUE,
  grant_id INTEGER NOT NULL,
  endpoint TEXT NOT NULL,
  at_ms    INTEGER NOT NULL,
  lease_ms INTEGER NOT NULL,
  open     INTEGER NOT NULL,
  ended_ms INTEGER NOT NULL,
  owner    TEXT NOT NULL,
  key      TEXT NOT NULL,
  digest   TEXT NOT NULL
) STRICT;
CREATE INDEX takes_open ON takes (n) WHERE open > 0;
CREATE INDEX takes_ended ON takes (n) WHERE open = 0;
CREATE INDEX takes_key ON takes (owner, key) WHERE key <> '';
CREATE TABLE taken (
  take     INTEGER NOT NULL,
  event_id TEXT NOT NULL,
  grant_id INTEGER NOT NULL,
  task     INTEGER NOT NULL,
  lane     TEXT,
  attempt  INTEGER NOT NULL,
  state    INTEGER NOT NULL,
  late     INTEGER NOT NULL,
  dropped  INTEGER NOT NULL,
  PRIMARY KEY (take, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX taken_task ON taken (task) WHERE state = 0;
CREATE INDEX taken_lane ON taken (grant_id, lane) WHERE state = 0;
CREATE INDEX taken_event ON taken (event_id);
