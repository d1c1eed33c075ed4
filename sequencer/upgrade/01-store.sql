-- sequencer: what each event is, who gets it, and how each delivery stands.

CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for each event taken, in the order of taking.
CREATE TABLE events (
  n            INTEGER PRIMARY KEY,
  id           TEXT NOT NULL,
  source       TEXT NOT NULL,
  provider_id  TEXT,               -- NULL: the provider gave none
  type         TEXT NOT NULL,
  workspace    TEXT NOT NULL,
  received_ms  INTEGER NOT NULL,
  taken_ms     INTEGER NOT NULL,
  status       INTEGER NOT NULL,   -- enum event_status
  sequence     INTEGER,            -- in its workspace; NULL: it took none
  clock        TEXT,               -- numbers by type at that moment
  reason       TEXT,               -- why it was refused
  duplicate_of TEXT                -- id of the event that it repeats
) STRICT;
-- Ids are made from time, so this index grows at its end.
CREATE UNIQUE INDEX events_id ON events(id);
CREATE INDEX events_provider_id ON events(provider_id)
  WHERE provider_id IS NOT NULL;

-- Headers and body, while somebody may still need them.
CREATE TABLE bodies (
  event   INTEGER PRIMARY KEY,
  headers BLOB NOT NULL,
  body    BLOB NOT NULL
) STRICT;

-- Idempotency keys: 16 bytes of a SHA-256 over what makes one up.
CREATE TABLE keys (
  key         BLOB PRIMARY KEY,
  event       INTEGER NOT NULL,
  received_ms INTEGER NOT NULL,
  expires_ms  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX keys_expiry ON keys(expires_ms);

-- One row for each workspace: last number, numbers by type, and the last number
-- that was routed to each endpoint (endpoint and number, 8 bytes each).
CREATE TABLE workspaces (
  name     TEXT PRIMARY KEY,
  sequence INTEGER NOT NULL,
  clock    TEXT NOT NULL,
  routed   BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Every endpoint that ever was, its home and grant (0: none).
CREATE TABLE endpoints (
  id       INTEGER PRIMARY KEY,
  name     TEXT NOT NULL UNIQUE,
  home     TEXT NOT NULL DEFAULT '',
  grant_id INTEGER NOT NULL DEFAULT 0,
  config   INTEGER NOT NULL DEFAULT 0, -- digest of what the grant carried
  ordered  INTEGER NOT NULL DEFAULT -1, -- as which (enum order_lanes) its waiting
                                       -- deliveries stand in lanes; -1: being
                                       -- put into others
  state    INTEGER NOT NULL DEFAULT 0, -- enum endpoint_state
  since_ms INTEGER NOT NULL DEFAULT 0, -- paused or disabled
  why      TEXT NOT NULL DEFAULT '',   -- and why
  failing_ms INTEGER NOT NULL DEFAULT 0, -- first of nothing but failures; 0
  warned   INTEGER NOT NULL DEFAULT 0, -- how many warnings of that were given
  paused_ms INTEGER NOT NULL DEFAULT 0 -- in all that it was paused or disabled
) STRICT;

CREATE TABLE deliverers (
  name  TEXT PRIMARY KEY,
  store INTEGER NOT NULL               -- id of its database
) STRICT, WITHOUT ROWID;

-- One row for each event and endpoint that wants it. Out is a delivery that is
-- unfinished and carries its endpoint's present grant.
CREATE TABLE deliveries (
  event    INTEGER NOT NULL,
  endpoint INTEGER NOT NULL,
  status   INTEGER NOT NULL,           -- enum delivery_status
  grant_id INTEGER NOT NULL DEFAULT 0, -- last given out under; 0: not given
  out_n    INTEGER NOT NULL DEFAULT 0, -- and as which number of the hop
  life     INTEGER NOT NULL DEFAULT 1, -- one more with each requeue
  previous INTEGER NOT NULL DEFAULT 0, -- last sequence routed here before
  lane     INTEGER NOT NULL,           -- lane.h: those of one go in order
  place    INTEGER NOT NULL,           -- in its lane: the order of routing
  behind   INTEGER NOT NULL DEFAULT 0, -- 1: waits for the one before it
  attempts INTEGER NOT NULL DEFAULT 0,
  earlier  INTEGER NOT NULL DEFAULT 0, -- of them in earlier lives
  first_ms INTEGER NOT NULL DEFAULT 0, -- first attempt of this life, …
  paused_ms INTEGER NOT NULL DEFAULT 0, -- … and its endpoint's paused_ms then
  next_ms  INTEGER NOT NULL DEFAULT 0, -- a parked retry is due
  at_ms    INTEGER NOT NULL DEFAULT 0, -- the last attempt: when, …
  duration_ms INTEGER NOT NULL DEFAULT 0,
  http_status INTEGER NOT NULL DEFAULT 0,
  error     TEXT NOT NULL DEFAULT '',
  reason    TEXT NOT NULL DEFAULT '',  -- of a dead one
  deliverer TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (event, endpoint)
) STRICT, WITHOUT ROWID;
-- A delivery that nobody has is in the first of these, one that is out in the
-- second. Statuses below 3 are open.
-- `status` is there so that a count needs no look at the rows themselves.
CREATE INDEX deliveries_waiting
  ON deliveries(endpoint, behind, lane, place, status) WHERE status = 0;
-- Final ones are here as long as a dropped copy of them is not answered for.
CREATE INDEX deliveries_out ON deliveries(endpoint, grant_id, status)
  WHERE grant_id <> 0;
-- All that stand in an ordered lane: its head (behind 0), then the rest. The plus
-- keeps SQLite from seeking by this condition instead of by the lane.
CREATE INDEX deliveries_lane ON deliveries(endpoint, lane, behind, place)
  WHERE +lane >= 0 AND (status < 3 OR grant_id <> 0);

-- Lanes that a dead letter halts (`on_dead: halt`), until somebody decides.
CREATE TABLE halts (
  event    INTEGER NOT NULL,           -- whose delivery is dead
  endpoint INTEGER NOT NULL,
  lane     INTEGER NOT NULL,
  place    INTEGER NOT NULL,
  at_ms    INTEGER NOT NULL,
  PRIMARY KEY (event, endpoint)
) STRICT, WITHOUT ROWID;
CREATE INDEX halts_lane ON halts(endpoint, lane, place);

-- Attempts that did not deliver, and those that came late. The one that did
-- deliver stands in its delivery's row.
CREATE TABLE attempts (
  event       INTEGER NOT NULL,
  endpoint    INTEGER NOT NULL,
  attempt_id  INTEGER NOT NULL,
  n           INTEGER NOT NULL,
  at_ms       INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  http_status INTEGER NOT NULL,
  error       TEXT NOT NULL,
  deliverer   TEXT NOT NULL,
  PRIMARY KEY (event, endpoint, attempt_id)
) STRICT, WITHOUT ROWID;

-- Messages to dlqd; the link's log refers to these rows. letters.sql says how long
-- they are kept; an event's body is deleted with its last row.
CREATE TABLE letters (
  n        INTEGER PRIMARY KEY,
  hop_n    INTEGER NOT NULL,
  event    INTEGER NOT NULL,
  endpoint INTEGER NOT NULL,           -- 0: refused before routing
  life     INTEGER NOT NULL,
  at_ms    INTEGER NOT NULL,
  response BLOB NOT NULL
) STRICT;
CREATE INDEX letters_hop ON letters(hop_n);
CREATE INDEX letters_event ON letters(event);
