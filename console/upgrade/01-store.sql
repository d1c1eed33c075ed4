-- console: what must outlive it of alerts. proto/hop.sql follows as the next
-- step. Nothing here is needed to deliver anything; the file may be deleted,
-- and then what fires is told once more.

-- Pending and firing ones, and the last that ended.
CREATE TABLE alerts (
  n        INTEGER PRIMARY KEY,
  rule     TEXT NOT NULL,
  subject  TEXT NOT NULL,      -- endpoint, source, process; '' for none
  state    TEXT NOT NULL,      -- pending, firing, resolved
  severity TEXT NOT NULL,
  since_ms INTEGER NOT NULL,
  fired_ms INTEGER NOT NULL,   -- 0: not yet
  ended_ms INTEGER NOT NULL,   -- 0: it is still so
  value    REAL NOT NULL,
  summary  TEXT NOT NULL
) STRICT;
CREATE INDEX alerts_active ON alerts(rule, subject) WHERE ended_ms = 0;

-- What is to be told, until it was told or given up. `body` is what goes out,
-- byte for byte the same at each try.
CREATE TABLE notifications (
  n        INTEGER PRIMARY KEY AUTOINCREMENT,
  id       TEXT NOT NULL,      -- the webhook-id: receivers drop repeats by it
  notifier TEXT NOT NULL,
  made_ms  INTEGER NOT NULL,
  next_ms  INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  severity TEXT NOT NULL,
  state    TEXT NOT NULL,
  alerts   TEXT NOT NULL,      -- names of rules, a space between
  subject  TEXT NOT NULL,      -- one line
  text     TEXT NOT NULL,
  body     TEXT NOT NULL
) STRICT;
CREATE INDEX notifications_due ON notifications(notifier, n);

-- Up to where dlqd's deaths have been told.
CREATE TABLE cursors (
  name  TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
