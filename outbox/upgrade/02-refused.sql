-- Outcomes that a database refuses are put off, each by itself.
CREATE TABLE later (
  event_id  TEXT PRIMARY KEY,
  n         INTEGER NOT NULL,
  relay     TEXT NOT NULL,
  row_id    TEXT NOT NULL,
  status    INTEGER NOT NULL,
  retries   INTEGER NOT NULL,
  last_ms   INTEGER NOT NULL,
  next_ms   INTEGER NOT NULL,
  error     TEXT NOT NULL,
  action_id INTEGER NOT NULL,
  refused   INTEGER NOT NULL,
  waits     INTEGER NOT NULL,
  due_ms    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO later SELECT event_id, n, relay, row_id, status, retries, last_ms, next_ms, error,
  action_id, 0, 0, 0 FROM outcomes;
DROP TABLE outcomes;
ALTER TABLE later RENAME TO outcomes;
CREATE UNIQUE INDEX outcomes_relay ON outcomes (relay, refused, due_ms, n);
