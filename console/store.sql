-- console.db: what alerts need to survive a restart. Nothing here is needed to deliver events.
-- When this file is deleted, alerts that are firing are sent once more.

-- Pending and firing alerts, and the last ones that have ended.
CREATE TABLE alerts (
  n        INTEGER PRIMARY KEY,
  rule     TEXT NOT NULL,
  subject  TEXT NOT NULL,      -- endpoint, source or process; '': the rule has no subject
  state    TEXT NOT NULL,      -- pending, firing, resolved
  severity TEXT NOT NULL,
  since_ms INTEGER NOT NULL,
  fired_ms INTEGER NOT NULL,   -- 0: not yet
  ended_ms INTEGER NOT NULL,   -- 0: the alert is active
  value    REAL NOT NULL,
  summary  TEXT NOT NULL
) STRICT;
CREATE INDEX alerts_active ON alerts(rule, subject) WHERE ended_ms = 0;

-- Notifications to send. A row is deleted when it was sent or given up.
CREATE TABLE notifications (
  n        INTEGER PRIMARY KEY AUTOINCREMENT,
  id       TEXT NOT NULL,      -- the webhook-id: receivers recognise duplicates by it
  notifier TEXT NOT NULL,
  made_ms  INTEGER NOT NULL,
  next_ms  INTEGER NOT NULL,   -- the next attempt is due
  attempts INTEGER NOT NULL,
  severity TEXT NOT NULL,
  state    TEXT NOT NULL,
  alerts   TEXT NOT NULL,      -- names of rules, separated by spaces
  subject  TEXT NOT NULL,      -- one line
  text     TEXT NOT NULL,
  body     TEXT NOT NULL       -- what is sent: the same bytes in each attempt
) STRICT;
CREATE INDEX notifications_due ON notifications(notifier, n);

-- Changes of alerts that the sequencer has to be told (alert_events.h).
CREATE TABLE alert_events (
  n      INTEGER PRIMARY KEY AUTOINCREMENT,
  report TEXT NOT NULL         -- the arguments of its command, as JSON
) STRICT;

-- Alert rules that notify nobody for a while (silences.h).
CREATE TABLE silences (
  rule     TEXT PRIMARY KEY,
  since_ms INTEGER NOT NULL,
  until_ms INTEGER NOT NULL,
  note     TEXT NOT NULL,      -- '': none
  who      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Up to which of dlqd's dead letters notifications were made.
CREATE TABLE cursors (
  name  TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

.read lib/daemon/acts.sql
.read proto/links.sql
