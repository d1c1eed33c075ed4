-- For those who ask: what people did, and lists that find their rows.

-- Pauses and resumes of endpoints, gaps that were closed, repeats that were let
-- through: who, when. What an endpoint's answers did to it stands here, too.
CREATE TABLE acts (
  n       INTEGER PRIMARY KEY,
  at_ms   INTEGER NOT NULL,
  subject TEXT NOT NULL,               -- "endpoint crm", "gap 12", "event evt_…"
  what    TEXT NOT NULL
) STRICT;
CREATE INDEX acts_subject ON acts(subject, at_ms);
CREATE INDEX acts_age ON acts(at_ms);

-- When an event was let go that did not go at once.
ALTER TABLE events ADD COLUMN let_go_ms INTEGER;

-- Those of a rare kind, newest first. Routed ones (0) and whole requests (8) are
-- not here.
CREATE INDEX events_odd ON events(status, n) WHERE status > 0 AND status < 8;
CREATE INDEX gaps_open ON gaps(id) WHERE status = 0;
CREATE INDEX deliveries_dead ON deliveries(event, endpoint) WHERE status = 4;

-- What the events of one block of numbers (blocks.h) are about, so that a search
-- passes over all that it can't find anything in.
CREATE TABLE blocks (
  b        INTEGER PRIMARY KEY,
  least_ms INTEGER NOT NULL,           -- of their receive times
  most_ms  INTEGER NOT NULL,
  names    BLOB NOT NULL               -- a filter (dedupe.h)
) STRICT;
