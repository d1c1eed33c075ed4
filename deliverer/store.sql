-- deliverer.db: the tasks that this deliverer has received and not finished, and the result of
-- each attempt.

-- One row, made with the file. By `id` the sequencer notices that a deliverer of this name has
-- lost its disk.
CREATE TABLE meta (
  one INTEGER PRIMARY KEY CHECK (one = 1),
  id  INTEGER NOT NULL
) STRICT;

-- The grants of endpoints that this deliverer has. A row stays after its grant was revoked
-- until the sequencer has acknowledged that and the grant's tasks are deleted.
CREATE TABLE grants (
  id         INTEGER PRIMARY KEY,
  endpoint   TEXT NOT NULL,
  state      INTEGER NOT NULL,        -- enum grant_state (own_grants.h)
  released_n INTEGER NOT NULL         -- the number of its `released` in the log to the sequencer
) STRICT;

-- Tasks that have not ended. A task gets its row about 500 ms after it was received (rows.c),
-- so most tasks end without one. One that was in flight at a crash is tried again, with the same webhook-id.
CREATE TABLE tasks (
  n        INTEGER PRIMARY KEY,
  grant_id INTEGER NOT NULL,
  event_id TEXT NOT NULL,
  attempts INTEGER NOT NULL,          -- so far, in all generations
  first_ms INTEGER NOT NULL,          -- the first attempt of this generation; 0: not yet
  next_ms  INTEGER NOT NULL,          -- the next attempt is due
  retrying   INTEGER NOT NULL,          -- 1: it failed here, and its retry is scheduled
  message  BLOB NOT NULL,             -- the task as the sequencer sent it
  early_ms INTEGER NOT NULL DEFAULT 0,-- when its endpoint recovers, it is tried then at the earliest
  held_ms  INTEGER,                   -- how long its endpoint had been held at `first_ms`, which its
                                      -- budget does not count (hold.h); NULL: not known
  sum      INTEGER                    -- checksum (db_sums.h); NULL: made before there were any
) STRICT;
-- `retrying` is in it so that a start counts tasks by the index alone.
CREATE INDEX tasks_due ON tasks (grant_id, next_ms, retrying);
CREATE INDEX tasks_event ON tasks (event_id);
CREATE INDEX tasks_early ON tasks (grant_id, early_ms) WHERE retrying = 1;
-- Tasks that have not failed are few, and a start counts them.
CREATE INDEX tasks_untried ON tasks (grant_id) WHERE retrying = 0;

-- One row: which numbers past the link's cursor are on disk already (stored_numbers.h).
CREATE TABLE settled (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  ahead BLOB NOT NULL
) STRICT;

-- The results of attempts. This table is the log of the link to the sequencer: `n` is the
-- number of the result there. The end of a grant (`released`) is a row with outcome 0. Rows are
-- deleted when history.keep has passed and the sequencer has acknowledged them.
CREATE TABLE attempts (
  n             INTEGER PRIMARY KEY,
  attempt_id    INTEGER NOT NULL,     -- 0: nothing was tried (released)
  grant_id      INTEGER NOT NULL,
  endpoint      TEXT NOT NULL,
  event_id      TEXT NOT NULL,
  outcome       INTEGER NOT NULL,     -- enum outcome (schema.h)
  http_status   INTEGER NOT NULL,
  error         TEXT NOT NULL,
  reason        TEXT NOT NULL,        -- why the delivery is dead
  at_ms         INTEGER NOT NULL,
  duration_ms   INTEGER NOT NULL,
  attempts      INTEGER NOT NULL,     -- of the delivery so far, in all generations
  first_ms      INTEGER NOT NULL,     -- the first attempt of this generation
  next_ms       INTEGER NOT NULL,     -- the next attempt is due
  response      BLOB NOT NULL,        -- the body of the response, cut
  headers       BLOB NOT NULL,        -- the headers of the response
  dns_us        INTEGER NOT NULL,     -- when each step was done, in µs since the attempt began;
  connect_us    INTEGER NOT NULL,     -- 0: there was no such step
  tls_us        INTEGER NOT NULL,
  first_byte_us INTEGER NOT NULL,
  total_us      INTEGER NOT NULL,
  http_version  INTEGER NOT NULL,     -- libcurl's CURL_HTTP_VERSION_…; 0: no response
  sends         INTEGER NOT NULL,     -- requests that were begun: 2 when a kept connection was dead
                                      -- and libcurl sent the request again
  request       BLOB NOT NULL DEFAULT x'', -- of an attempt that did not deliver: method, URL and
                                      -- headers without secrets, packed (sent.h)
  template      INTEGER NOT NULL DEFAULT 0,-- of one that did: its request's template; 0: none is kept
  stamp_s       INTEGER NOT NULL DEFAULT 0 -- webhook-timestamp is so many seconds behind `at_ms`
) STRICT;
-- Ids of events nearly ascend, so this index grows at its end.
CREATE INDEX attempts_event ON attempts (event_id);

-- What requests of one kind have in common (templates.h), so that a delivered attempt stores
-- only a number.
CREATE TABLE templates (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  request BLOB NOT NULL,              -- packed (sent.h), without secrets
  used_ms INTEGER NOT NULL            -- to the hour; the row is deleted history.keep later
) STRICT;

-- What a consumer of a pull endpoint has taken at once (takes.h). The row of a delivery in
-- `tasks` stays until it has ended, and is not due while it is taken.
CREATE TABLE takes (
  n        INTEGER PRIMARY KEY AUTOINCREMENT,
  id       TEXT NOT NULL UNIQUE,      -- as the consumer knows it: "take_", a ULID, this process
  grant_id INTEGER NOT NULL,
  endpoint TEXT NOT NULL,
  at_ms    INTEGER NOT NULL,
  lease_ms INTEGER NOT NULL,
  open     INTEGER NOT NULL,          -- how many of its deliveries have not ended
  ended_ms INTEGER NOT NULL,          -- when the last one did; 0: not yet
  owner    TEXT NOT NULL,             -- of the idempotency key (acts.h) …
  key      TEXT NOT NULL,             -- … which may be ''
  digest   TEXT NOT NULL
) STRICT;
CREATE INDEX takes_open ON takes (n) WHERE open > 0;
CREATE INDEX takes_ended ON takes (n) WHERE open = 0;
CREATE INDEX takes_key ON takes (owner, key) WHERE key <> '';

-- Each delivery of these, also after its end: so a repeated acknowledgement is recognised.
CREATE TABLE taken (
  take     INTEGER NOT NULL,
  event_id TEXT NOT NULL,
  grant_id INTEGER NOT NULL,
  task     INTEGER NOT NULL,          -- its row in `tasks`
  lane     TEXT,                      -- of an ordered endpoint: its workspace, and the ordering key in a
                                      -- second line, or ''; else NULL
  attempt  INTEGER NOT NULL,          -- the number of the attempt, from 1
  state    INTEGER NOT NULL,          -- enum taken_state (take_rows.h); 0: it has not ended
  late     INTEGER NOT NULL,          -- 1: meanwhile an earlier consumer acknowledged it, too late
  dropped  INTEGER NOT NULL,          -- 1: it is final elsewhere, so it is not retried
  PRIMARY KEY (take, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX taken_task ON taken (task) WHERE state = 0;
CREATE INDEX taken_lane ON taken (grant_id, lane) WHERE state = 0;
CREATE INDEX taken_event ON taken (event_id);

.read lib/daemon/acts.sql
.read proto/links.sql
