-- sequencer.db: what each event is, which endpoints get it, and the state of each delivery.
--
--   events      events, their bodies, the events of one request
--   duplicates  idempotency keys and digests
--   order       workspaces, streams, buffered events, gaps, states of objects
--   deliveries  endpoints, deliverers, deliveries, lanes that are halted, attempts
--   dead letters, outcomes for processes that sent events, what people did, filters for searches

-- ---- events ----

CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- One row for each event, in the order in which the sequencer stored them. A request that
-- carried several events has a row of its own, too (`parts`).
CREATE TABLE events (
  n               INTEGER PRIMARY KEY,
  id              TEXT NOT NULL,
  source          TEXT NOT NULL,
  provider_id     TEXT,               -- the provider's id of the event; NULL: it gave none
  type            TEXT NOT NULL,
  workspace       TEXT NOT NULL,
  received_ms     INTEGER NOT NULL,   -- ingress had the whole request
  taken_ms        INTEGER NOT NULL,   -- the sequencer stored this row
  status          INTEGER NOT NULL,   -- enum event_status
  sequence        INTEGER,            -- number in its workspace; NULL: it has none (yet)
  clock           TEXT,               -- how many events of each type the workspace had then
  reason          TEXT,               -- why it has this status
  duplicate_of    TEXT,               -- id of the event of which it is a duplicate
  source_sequence INTEGER,            -- the source's own number
  late            INTEGER,            -- 1: later events of its stream were released before it
  gap             TEXT,               -- "3-5": it was released though these numbers are missing
  note            TEXT,               -- what `trace` adds about its order
  released_ms     INTEGER,            -- when it was routed or ignored after its row was stored; NULL: at
                                      -- once, or it is neither
  delivery_id     TEXT,               -- the provider's id of the delivery that brought it, if it
                                      -- differs from `provider_id`; '': it is the same; NULL: there is
                                      -- none, or the row of its request has it (`parts`), or the row
                                      -- is older than this column, and provider_id may have it
  reopened_ms     INTEGER,            -- when a person last sent it again, though it was refused or a
                                      -- duplicate; its age counts from then; NULL: never
  sum             INTEGER,            -- checksum (db_sums.h); NULL: made before there were any
  subscriber      INTEGER,            -- the row of the process in `subscribers` that is told what becomes
                                      -- of it; NULL: none is
  ordering_key    TEXT,               -- a producer's, for its lane in its workspace; NULL: it has none
  traceparent     TEXT                -- that of its request (trace_context.h); NULL: it had no valid one
) STRICT;
-- Ids are made from time, so this index grows at its end.
CREATE UNIQUE INDEX events_id ON events(id);
-- Rare kinds, for lists: neither routed events (0) nor requests of several events (8).
CREATE INDEX events_odd ON events(status, n) WHERE status > 0 AND status < 8;

-- The ids that providers gave (`events.provider_id` and `delivery_id`) by their hashes, in blocks of event numbers (provider_ids.h).
CREATE TABLE provider_ids (
  part INTEGER PRIMARY KEY,           -- the number of the block, and the first 7 bits of the hash
  ids  BLOB NOT NULL                  -- 8 bytes each, the lowest first, in the order of the events: the hash; in its
                                      -- lower 24 bits which event of the block it is
) STRICT;

-- Events that came in one request, and the row of that request.
CREATE TABLE parts (
  event   INTEGER PRIMARY KEY,
  request INTEGER NOT NULL
) STRICT;
CREATE INDEX parts_request ON parts(request);

-- Headers and body, as long as a delivery or a dead letter may need them.
CREATE TABLE bodies (
  event   INTEGER PRIMARY KEY,
  headers BLOB NOT NULL,
  body    BLOB NOT NULL,
  head    INTEGER NOT NULL DEFAULT 0, -- the row of `heads` with headers that it shares; `headers`
                                      -- has then the other ones; 0: it shares none
  sum     INTEGER                     -- checksum, as above
) STRICT;
CREATE INDEX bodies_head ON bodies(head) WHERE head <> 0;

-- Headers and body of each operational event (operational_archive.h), which no ingress has. Deleted
-- with the event's row.
CREATE TABLE operational_bodies (
  event       INTEGER PRIMARY KEY,
  received_ms INTEGER NOT NULL,
  headers     BLOB NOT NULL,
  body        BLOB NOT NULL
) STRICT;

-- Headers that several events have word for word, because one request or connection brought
-- them all. A row is deleted with the last body that refers to it.
CREATE TABLE heads (
  id      INTEGER PRIMARY KEY,
  headers BLOB NOT NULL,
  sum     INTEGER                     -- checksum, as above
) STRICT;

-- ---- duplicates ----

-- Idempotency keys (dedupe.h). `k` is the number of the key's generation, the number of its segment, and
-- 45 bits of the key, so that new rows are close together.
CREATE TABLE keys (
  k           INTEGER PRIMARY KEY,
  rest        INTEGER NOT NULL,       -- 51 more bits of the key
  event       INTEGER NOT NULL,
  received_ms INTEGER NOT NULL
) STRICT;
-- Rows of `keys` that are not there yet (recent_keys.h): those of a turn, 32 bytes each.
CREATE TABLE recent_keys (
  n    INTEGER PRIMARY KEY,
  keys BLOB NOT NULL                  -- k, rest, event, received_ms; the lowest byte first
) STRICT;
-- Keys that are forgotten together.
CREATE TABLE key_generations (
  id      INTEGER PRIMARY KEY,
  class   INTEGER NOT NULL,           -- how long its keys are kept; 5: they are digests of the signed
                                      -- parts of requests (`dedupe.replays`)
  count   INTEGER NOT NULL,
  made_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,           -- no key of it matters to events received after this time
  closed  INTEGER NOT NULL,           -- 1: new keys go into a later one
  filter  BLOB,                       -- of a closed one: which keys it may have
  segmented INTEGER NOT NULL DEFAULT 0 -- 0: an earlier version made it: its rows have no segment number, and
                                      -- 48 bits of the key in `k`
) STRICT;
CREATE INDEX key_generations_class ON key_generations(class);

-- A digest of each event with an idempotency key (published_digest()), which tells a duplicate
-- from another event with the same key. Events from before this table have none.
CREATE TABLE event_digests (
  event  INTEGER PRIMARY KEY,
  digest BLOB NOT NULL
) STRICT;

-- ---- order ----

CREATE TABLE workspaces (
  name     TEXT PRIMARY KEY,
  sequence INTEGER NOT NULL,          -- the last number
  clock    TEXT NOT NULL,             -- how many events of each type it has had
  routed   BLOB NOT NULL,             -- the last number routed to each endpoint: 8 bytes each for
                                      -- endpoint and number
  positions BLOB NOT NULL DEFAULT x'',-- where its next delivery is in the queue of each endpoint for which
                                      -- deliveries wait: 8 bytes each for endpoint and position (lane.h);
                                      -- in the upper half of the first the number of the queue
  lane     INTEGER NOT NULL DEFAULT 0 -- the number of its lanes (lane.h). It ascends with new
                                      -- workspaces, so that their deliveries are at the end of an index
) STRICT, WITHOUT ROWID;

-- The ingress processes from which events have come.
CREATE TABLE ingresses (
  name TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- Where each source's order numbers are found. When that changes, its streams begin anew with
-- the next event, as numbers from before and after can't be compared.
CREATE TABLE orders (
  source TEXT PRIMARY KEY,
  form   INTEGER NOT NULL,            -- digest of that configuration
  epoch  INTEGER NOT NULL             -- how often it has changed
) STRICT, WITHOUT ROWID;

-- The events of one source and workspace that are ordered by number or by time; with
-- `sequence_per: type`, those of one type.
CREATE TABLE streams (
  id        INTEGER PRIMARY KEY,
  source    TEXT NOT NULL,
  workspace TEXT NOT NULL,
  type      TEXT NOT NULL,            -- '': all types
  kind      INTEGER NOT NULL,         -- enum order_by
  next      INTEGER NOT NULL,         -- an event at a lower position is late
  high      INTEGER NOT NULL,         -- the highest position seen
  held      INTEGER NOT NULL DEFAULT 0, -- how many rows it has in `buffer`
  epoch     INTEGER NOT NULL DEFAULT 0  -- of its source (`orders`)
) STRICT;
CREATE UNIQUE INDEX streams_name ON streams(source, workspace, type, kind);
CREATE INDEX streams_held ON streams(id) WHERE held > 0;
CREATE INDEX streams_workspace ON streams(workspace) WHERE held > 0;

-- Buffered events: each waits for lower numbers of its stream, or, in time order, until `due`.
CREATE TABLE buffer (
  stream   INTEGER NOT NULL,
  position INTEGER NOT NULL,          -- its number, or its time in µs
  event    INTEGER NOT NULL,
  observed INTEGER NOT NULL,          -- 1: it was released; `order.observe` only notes what would be
  due      INTEGER NOT NULL,          -- of a stream in time order: when it is released (watermark clock)
  generation     INTEGER NOT NULL DEFAULT 0,-- generation of the dead letter that it was before; 0: none
  PRIMARY KEY (stream, position, event)
) STRICT, WITHOUT ROWID;
CREATE INDEX buffer_due ON buffer(due) WHERE due > 0;

-- Missing numbers. Gaps of one stream never overlap.
CREATE TABLE gaps (
  id        INTEGER PRIMARY KEY,
  stream    INTEGER NOT NULL,         -- below 0: of a stream that has begun anew since
  source    TEXT NOT NULL,
  workspace TEXT NOT NULL,
  type      TEXT NOT NULL,
  first     INTEGER NOT NULL,
  last      INTEGER NOT NULL,
  status    INTEGER NOT NULL,         -- enum gap_status
  opened_ms INTEGER NOT NULL,
  closed_ms INTEGER NOT NULL DEFAULT 0, -- when it was filled, skipped or closed; 0: it is open
  note      TEXT NOT NULL DEFAULT '',
  due       INTEGER NOT NULL          -- when it is skipped (watermark clock)
) STRICT;
CREATE INDEX gaps_first ON gaps(stream, first);
CREATE INDEX gaps_due ON gaps(due) WHERE status = 0;
CREATE INDEX gaps_workspace ON gaps(workspace) WHERE status = 0;
CREATE INDEX gaps_opened ON gaps(opened_ms) WHERE status = 0;
CREATE INDEX gaps_closed ON gaps(closed_ms) WHERE status <> 0;
CREATE INDEX gaps_open ON gaps(id) WHERE status = 0;

-- The state of each object, after its last valid transition.
CREATE TABLE objects (
  source    TEXT NOT NULL,
  workspace TEXT NOT NULL,
  object    TEXT NOT NULL,
  state     TEXT NOT NULL,
  moved_ms  INTEGER NOT NULL,
  last      INTEGER NOT NULL,         -- 1: a final state, so that the object may be forgotten
  PRIMARY KEY (source, workspace, object)
) STRICT, WITHOUT ROWID;
CREATE INDEX objects_last ON objects(moved_ms) WHERE last = 1;

-- The valid transition that an event made of its object's state, for `trace`. Events from before
-- this table have none.
CREATE TABLE transitions (
  event      INTEGER PRIMARY KEY,
  object     TEXT NOT NULL,
  from_state TEXT NOT NULL,           -- '': the object was new
  to_state   TEXT NOT NULL
) STRICT;

-- ---- deliveries ----

-- Every endpoint, and removed ones as long as an event may have a delivery for them.
CREATE TABLE endpoints (
  id             INTEGER PRIMARY KEY,
  name           TEXT NOT NULL UNIQUE,
  owner          TEXT NOT NULL DEFAULT '',    -- the deliverer that owns it; '': none
  grant_id       INTEGER NOT NULL DEFAULT 0,  -- its owner's grant; 0: none
  config         INTEGER NOT NULL DEFAULT 0,  -- digest of the configuration sent with the grant
  ordered        INTEGER NOT NULL DEFAULT -1, -- by which enum order_lanes its waiting deliveries have
                                              -- their lanes; -1: they are being put into others
  state          INTEGER NOT NULL DEFAULT 0,  -- enum endpoint_state
  since_ms       INTEGER NOT NULL DEFAULT 0,  -- paused or disabled since …
  why            TEXT NOT NULL DEFAULT '',    -- … and why
  failing_ms     INTEGER NOT NULL DEFAULT 0,  -- all attempts have failed since; 0: they have not
  warned         INTEGER NOT NULL DEFAULT 0,  -- how many warnings were given of that
  paused_ms      INTEGER NOT NULL DEFAULT 0,  -- for how long in all it was paused or disabled
  gone_after     INTEGER NOT NULL DEFAULT 0,  -- removed: no event above this number has a delivery for
                                              -- it; 0: it is not removed
  failing_for_ms INTEGER NOT NULL DEFAULT 0,  -- how long all attempts have failed, without the time in
                                              -- which its owner sent no heartbeats
  healthy        INTEGER NOT NULL DEFAULT 0,  -- 1: an attempt has succeeded before
  held_ms        INTEGER NOT NULL DEFAULT 0,  -- held since (hold.h of the deliverer); 0: it is not …
  held_status    INTEGER NOT NULL DEFAULT 0,  -- … and the status with which it refuses all events
  resumed_ms     INTEGER NOT NULL DEFAULT 0,  -- when a pause, a hold or a halt last ended; 0: never.
                                              -- Events from before are in no latency
  round          INTEGER NOT NULL DEFAULT 0,  -- of its queue, if it is not ordered: of the last delivery
                                              -- that was dispatched from it (lane.h)
  temporary      INTEGER NOT NULL DEFAULT 0,  -- 1: made by `grapnel listen`; also after it is deleted
  round_high     INTEGER NOT NULL DEFAULT 0,  -- the same of its queue of `priority: high`, …
  round_low      INTEGER NOT NULL DEFAULT 0   -- … and of `low`
) STRICT;

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
  changed_ms  INTEGER NOT NULL,
  unused_ms   INTEGER NOT NULL DEFAULT 0  -- temporary: for how long no consumer took from it, in time that
                                          -- the sequencer ran
) STRICT;
CREATE INDEX managed_endpoints_workspace ON managed_endpoints(workspace, id);
CREATE INDEX managed_endpoints_key ON managed_endpoints(secrets_key, id)
  WHERE secrets_key <> '';
CREATE INDEX managed_endpoints_retire ON managed_endpoints(retire_ms)
  WHERE retire_ms > 0;

-- Endpoints that were deleted and had one workspace: its tokens still see their deliveries.
CREATE TABLE deleted_endpoints (
  id         INTEGER PRIMARY KEY,         -- in `endpoints`
  workspace  TEXT NOT NULL,
  deleted_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX deleted_endpoints_workspace ON deleted_endpoints(workspace, deleted_ms);

CREATE TABLE deliverers (
  name  TEXT PRIMARY KEY,
  store INTEGER NOT NULL                      -- id of its database (`meta` there)
) STRICT, WITHOUT ROWID;

-- One row for each event and endpoint that is subscribed to it. A delivery is with a deliverer
-- when it is not final and its grant is the present one of its endpoint.
CREATE TABLE deliveries (
  event       INTEGER NOT NULL,
  endpoint    INTEGER NOT NULL,
  status      INTEGER NOT NULL,               -- enum delivery_status; below 3: not final
  grant_id    INTEGER NOT NULL DEFAULT 0,     -- under which it was last sent; 0: it is not sent …
  out_n       INTEGER NOT NULL DEFAULT 0,     -- … and with which number of the link
  generation        INTEGER NOT NULL DEFAULT 1,     -- from 1; one more with each requeue or replay
  previous    INTEGER NOT NULL DEFAULT 0,     -- the number before it in its workspace at this endpoint
  lane        INTEGER NOT NULL,               -- lane.h: deliveries of one lane are made in order
  route_order INTEGER NOT NULL,               -- position in its lane: the order of routing
  behind      INTEGER NOT NULL DEFAULT 0,     -- 1: it waits for the one before it in its lane
  attempts    INTEGER NOT NULL DEFAULT 0,     -- in all generations
  earlier     INTEGER NOT NULL DEFAULT 0,     -- of them in earlier generations
  first_ms    INTEGER NOT NULL DEFAULT 0,     -- the first attempt of this generation …
  paused_ms   INTEGER NOT NULL DEFAULT 0,     -- … and its endpoint's `paused_ms` then
  next_ms     INTEGER NOT NULL DEFAULT 0,     -- its scheduled retry is due
  at_ms       INTEGER NOT NULL DEFAULT 0,     -- the last attempt: its time, …
  duration_ms INTEGER NOT NULL DEFAULT 0,
  http_status INTEGER NOT NULL DEFAULT 0,
  error       TEXT NOT NULL DEFAULT '',
  reason      TEXT NOT NULL DEFAULT '',       -- why it is dead
  deliverer   TEXT NOT NULL DEFAULT '',
  action_id      INTEGER NOT NULL DEFAULT 0,     -- the last replay that opened it again, so that one that
                                              -- is received twice is applied once; 0: none
  died        INTEGER NOT NULL DEFAULT 0,     -- the last generation that ended with a dead letter
  sent        INTEGER NOT NULL DEFAULT 1,     -- 0: no attempt can have reached its endpoint, so that a
                                              -- retry is not marked as a replay
  reopened_ms INTEGER NOT NULL DEFAULT 0,     -- when a person last sent it again after it was final; its
                                              -- age counts from then; 0: never
  retry_choice TEXT,                          -- policy=, max_attempts=, expires_ms= and priority= that its
                                              -- route or event chose (choice.h); NULL: none
  lane_key    INTEGER NOT NULL DEFAULT 0,     -- lane.h: a lane of its own for each ordering key; 0: it has
                                              -- none, or its endpoint does not tell them apart
  PRIMARY KEY (event, endpoint)
) STRICT, WITHOUT ROWID;
-- Deliveries that no deliverer has: heads and unordered ones by lane, and those that wait for the one
-- before in the order of routing, so that these are added at one end and removed at the other (by lane
-- they are in deliveries_lane). The last two columns let counts and ages read the index alone.
CREATE INDEX deliveries_waiting
  ON deliveries(endpoint, behind, iif(behind, 0, lane), route_order, status, reopened_ms)
  WHERE status = 0;
-- Deliveries that a deliverer has. Final ones stay here until the deliverer has answered for a
-- copy that it was told to drop.
CREATE INDEX deliveries_out
  ON deliveries(endpoint, grant_id, status, event, reopened_ms)
  WHERE grant_id <> 0;
-- An ordered lane: its head (`behind` 0), then the rest. The plus keeps SQLite from seeking by
-- this condition instead of by the lane.
CREATE INDEX deliveries_lane
  ON deliveries(endpoint, lane, lane_key, behind, route_order)
  WHERE +lane >= 0 AND (status < 3 OR grant_id <> 0);
CREATE INDEX deliveries_dead ON deliveries(event, endpoint) WHERE status = 4;

-- Final deliveries to send again as soon as the deliverer has answered for the copy that it has.
CREATE TABLE reopenings (
  event    INTEGER NOT NULL,
  endpoint INTEGER NOT NULL,
  action_id   INTEGER NOT NULL,                  -- as in deliveries
  PRIMARY KEY (event, endpoint)
) STRICT, WITHOUT ROWID;

-- Lanes that a dead letter halts (`on_dead: halt`), until a person has decided about it.
CREATE TABLE halts (
  event    INTEGER NOT NULL,                  -- the dead delivery
  endpoint INTEGER NOT NULL,
  lane     INTEGER NOT NULL,
  route_order INTEGER NOT NULL,
  at_ms    INTEGER NOT NULL,
  lane_key INTEGER NOT NULL DEFAULT 0,        -- as in deliveries
  PRIMARY KEY (event, endpoint)
) STRICT, WITHOUT ROWID;
CREATE INDEX halts_lane ON halts(endpoint, lane, lane_key, route_order);

-- Attempts that failed, and those whose result came late. The row of a delivery has the attempt
-- that delivered it.
CREATE TABLE attempts (
  event       INTEGER NOT NULL,
  endpoint    INTEGER NOT NULL,
  attempt_id  INTEGER NOT NULL,
  n           INTEGER NOT NULL,               -- the delivery's first, second … attempt
  at_ms       INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL,
  http_status INTEGER NOT NULL,
  error       TEXT NOT NULL,
  deliverer   TEXT NOT NULL,
  PRIMARY KEY (event, endpoint, attempt_id)
) STRICT, WITHOUT ROWID;

-- ---- dead letters ----

-- Messages to dlqd: the link's log refers to these rows. They are kept for a day after dlqd has
-- acknowledged them, so that a dlqd that comes back from an older copy gets them again. As the
-- delivery may be sent again meanwhile, each row says how its generation ended. An event's body
-- is kept until its last row is deleted.
CREATE TABLE dead_letters (
  n           INTEGER PRIMARY KEY,
  link_n      INTEGER NOT NULL,               -- number in the log
  event       INTEGER NOT NULL,
  endpoint    INTEGER NOT NULL,               -- 0: the event was refused before routing
  generation        INTEGER NOT NULL,
  at_ms       INTEGER NOT NULL,
  response    BLOB NOT NULL,
  reason      TEXT NOT NULL DEFAULT '',       -- '': recovered
  attempts    INTEGER NOT NULL DEFAULT 0,
  first_ms    INTEGER NOT NULL DEFAULT 0,
  http_status INTEGER NOT NULL DEFAULT 0,
  error       TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX dead_letters_link ON dead_letters(link_n);
CREATE INDEX dead_letters_event ON dead_letters(event);

-- ---- outcomes ----

-- Processes that are told what becomes of the events which they sent (outcomes.h). The log of the
-- link to each has the changes. A message is made of the event's rows when it is sent.
CREATE TABLE subscribers (
  id   INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE
) STRICT;

-- When the log of a subscriber had reached which number, about once an hour: rows that are older
-- than a week are deleted.
CREATE TABLE outcome_marks (
  subscriber INTEGER NOT NULL,
  n          INTEGER NOT NULL,        -- rows from this one on were written at `at_ms` or later
  at_ms      INTEGER NOT NULL,
  PRIMARY KEY (subscriber, n)
) STRICT, WITHOUT ROWID;

-- What people decided about dead letters of events that have a subscriber.
CREATE TABLE outcome_decisions (
  event      INTEGER NOT NULL,
  endpoint   INTEGER NOT NULL,        -- 0: the event was refused before routing
  generation INTEGER NOT NULL,        -- of the dead letter
  resolved   INTEGER NOT NULL,        -- 0: discarded, or deleted after dlq.keep
  PRIMARY KEY (event, endpoint)
) STRICT, WITHOUT ROWID;

-- The last replay of each event that has a subscriber.
CREATE TABLE outcome_replays (
  event     INTEGER PRIMARY KEY,
  action_id INTEGER NOT NULL
) STRICT;

-- ---- for people who ask ----

-- Who did what, and when: pauses of endpoints, closed gaps, released duplicates. What the
-- responses of an endpoint did to it is here, too.
CREATE TABLE actions (
  n       INTEGER PRIMARY KEY,
  at_ms   INTEGER NOT NULL,
  subject TEXT NOT NULL,                      -- "endpoint crm", "gap 12", "event evt_…"
  what    TEXT NOT NULL
) STRICT;
CREATE INDEX actions_subject ON actions(subject, at_ms);
CREATE INDEX actions_age ON actions(at_ms);

-- Search filters: what the events of one block of numbers are about (search_filters.h), so that a search
-- skips blocks in which nothing can match.
CREATE TABLE search_filters (
  block    INTEGER PRIMARY KEY,
  min_ms INTEGER NOT NULL,                  -- the earliest of their receive times …
  max_ms  INTEGER NOT NULL,                  -- … and the latest
  names    BLOB NOT NULL                      -- a filter (dedupe.h)
) STRICT;

-- The last operational event (operational_events.h) of each subject and type in this minute, and
-- the newest one that was left out because there is at most one a minute.
CREATE TABLE operational_limits (
  subject   TEXT NOT NULL,
  type      TEXT NOT NULL,
  at_ms     INTEGER NOT NULL,         -- when the last one was written
  left_out  INTEGER NOT NULL,         -- how many were left out since
  id        TEXT NOT NULL,            -- of the newest of these: its id, …
  workspace TEXT NOT NULL,
  hops      INTEGER NOT NULL,
  data      TEXT NOT NULL,            -- … and its data, as JSON
  PRIMARY KEY (subject, type)
) STRICT, WITHOUT ROWID;

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

-- The tokens of the HTTP API. A row is deleted 400 days after its token was revoked or has expired.
CREATE TABLE tokens (
  id           TEXT PRIMARY KEY,      -- tok_…, in the order in which they were made
  name         TEXT NOT NULL,
  role         TEXT NOT NULL,         -- workspace, viewer, operator, admin
  sha256       BLOB NOT NULL UNIQUE,
  created_ms   INTEGER NOT NULL,
  created_by   TEXT NOT NULL,
  last_used_ms INTEGER NOT NULL,      -- to the minute; 0: it was not used
  expires_ms   INTEGER NOT NULL,      -- 0: never
  revoked_ms   INTEGER NOT NULL,      -- 0: it is not revoked
  workspace    TEXT NOT NULL DEFAULT '' -- the only one that it is for; '': it has another role
) STRICT;
CREATE UNIQUE INDEX tokens_name ON tokens (name) WHERE revoked_ms = 0;

.read lib/daemon/acts.sql
.read lib/daemon/jobs.sql
.read proto/links.sql
