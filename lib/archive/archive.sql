-- The archive of a process that stores events and sends them to the sequencer.

-- The archive of accepted requests. It is also the log of the link to the sequencer: `n` is the
-- number of the message there. Rows are appended, and deleted from the front once the sequencer
-- has acknowledged them, or from the middle when one source has too much (capacity).
CREATE TABLE archive (
  n           INTEGER PRIMARY KEY,
  event_id    TEXT NOT NULL,
  source      TEXT NOT NULL,
  received_ms INTEGER NOT NULL,        -- wall clock, when the body was complete
  remote      TEXT NOT NULL,           -- the client's address
  secret      INTEGER NOT NULL,        -- index of the secret that verified the request
  headers     BLOB NOT NULL,           -- all, in order, packed (headers.h)
  body        BLOB NOT NULL,           -- as received
  head        INTEGER NOT NULL DEFAULT 0, -- `n` of the row of `heads` that has its headers; 0: this
                                       -- row has its own
  sum         INTEGER                  -- checksum (db_sums.h); NULL: made before there were any
) STRICT;

-- Headers of a request that became several rows of the archive, from `n` to `last_n`.
CREATE TABLE heads (
  n       INTEGER PRIMARY KEY,
  last_n  INTEGER NOT NULL,
  headers BLOB NOT NULL,
  sum     INTEGER                      -- checksum, as above
) STRICT;

-- Where an event is in the archive. Ids made from an idempotency key ('evt_8' and above) are all
-- here. Ids made from time ascend with `n`: one of each 64 is here, and the archive is searched
-- from there (archive_ids.c). Every row here has its row in the archive.
CREATE TABLE archive_ids (
  event_id TEXT PRIMARY KEY,
  n        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- How many bytes of the archive each source has (archive_usage.h).
CREATE TABLE usage (
  source TEXT PRIMARY KEY,
  bytes  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- One row: which rows of the archive `usage` counts. Rows that an earlier version wrote are not
-- counted; they are the oldest and are deleted first.
CREATE TABLE usage_counted (
  from_n    INTEGER NOT NULL,          -- rows behind this one are counted, …
  counted_n INTEGER NOT NULL           -- … up to this one
) STRICT;
INSERT INTO usage_counted(from_n, counted_n) VALUES (0, 0);

-- Events that an operator sends again. A row has a number of the link to the sequencer, as one
-- of the archive has, and refers to the archived request, which stays as long as this row is
-- not acknowledged.
CREATE TABLE replays (
  n        INTEGER PRIMARY KEY,
  archived INTEGER NOT NULL,           -- `n` of the request in the archive
  action_id   INTEGER NOT NULL,           -- 64 random bits: the sequencer applies it once
  at_ms    INTEGER NOT NULL,
  event_id TEXT NOT NULL,              -- the request's, or that of one event in it
  new_id   TEXT NOT NULL,              -- id of a new event to make of it; '': send the event itself
  endpoint TEXT NOT NULL,              -- '': all
  always   INTEGER NOT NULL,           -- 1: even if this endpoint is not subscribed to it
  who      TEXT NOT NULL
) STRICT;
CREATE INDEX replays_archived ON replays (archived, n);
CREATE INDEX replays_event ON replays (event_id);
CREATE UNIQUE INDEX replays_new ON replays (new_id) WHERE new_id <> '';
