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
