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

-- What is usual for a source (usual.h, which says what these numbers mean), for the alert unusual_silence.
CREATE TABLE learned_sources (
  source      TEXT PRIMARY KEY,
  seen_ms     INTEGER NOT NULL, -- the last look at it
  event_ms    INTEGER NOT NULL, -- its last event
  hour        INTEGER NOT NULL,
  count       REAL NOT NULL,
  observed_ms REAL NOT NULL,
  learned_ms  REAL NOT NULL,
  expected    REAL NOT NULL,
  missing     REAL NOT NULL,
  pause_ms    REAL NOT NULL,
  overdue     REAL NOT NULL,
  longest     REAL NOT NULL,
  longest_overdue REAL NOT NULL
) STRICT, WITHOUT ROWID;

-- Its rates by hour of the week.
CREATE TABLE learned_hours (
  source TEXT PRIMARY KEY,
  rates  BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- With which statuses an endpoint usually responds (status_mix.h), for the alert status_mix.
CREATE TABLE learned_endpoints (
  endpoint   TEXT PRIMARY KEY,
  seen_ms    INTEGER NOT NULL, -- its last response
  learned_ms REAL NOT NULL,
  hour_ms    REAL NOT NULL,
  counts     BLOB NOT NULL     -- now, last, past, peak, worst: 5 doubles each
) STRICT, WITHOUT ROWID;

-- Why requests to a source were refused, for the alert new_refusal.
CREATE TABLE learned_refusals (
  source  TEXT NOT NULL,
  reason  TEXT NOT NULL,
  seen_ms INTEGER NOT NULL,    -- last, or up to an hour before
  new_ms  INTEGER NOT NULL,    -- when it was new; 0: before the source worked
  PRIMARY KEY (source, reason)
) STRICT, WITHOUT ROWID;

-- Until when further dead letters of an endpoint are only counted (`every` of a rule for dead_letter).
CREATE TABLE dead_letter_holds (
  rule     TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  until_ms INTEGER NOT NULL,
  count    INTEGER NOT NULL,
  first    TEXT NOT NULL,      -- the first ones, as JSON
  PRIMARY KEY (rule, endpoint)
) STRICT, WITHOUT ROWID;

.read lib/daemon/acts.sql
.read proto/links.sql
