-- ingress.db: accepted requests, until the sequencer has them and archive.keep has passed; and
-- the last refused ones.

.read lib/archive/archive.sql

-- The last thousand refused requests of each source: a ring, in which `n` overwrites `n` - 1000.
CREATE TABLE rejects (
  source      TEXT NOT NULL,           -- '': the request named no source
  slot        INTEGER NOT NULL,        -- n modulo 1000
  n           INTEGER NOT NULL,        -- ascends within the source
  at_ms       INTEGER NOT NULL,
  status      INTEGER NOT NULL,
  reason      TEXT NOT NULL,
  remote      TEXT NOT NULL,
  method      TEXT NOT NULL,
  path        TEXT NOT NULL,
  body_bytes  INTEGER NOT NULL,
  headers     BLOB NOT NULL,           -- packed, without secrets
  id          TEXT NOT NULL DEFAULT '',-- rej_…; '': made before there were ids
  delivery_id TEXT,                    -- the provider's id of this delivery, where a header has it:
                                       -- people look for it when the provider shows them a failure
  PRIMARY KEY (source, slot)
) STRICT, WITHOUT ROWID;
CREATE INDEX rejects_id ON rejects (id) WHERE id <> '';
CREATE INDEX rejects_delivery_id ON rejects (delivery_id)
  WHERE delivery_id IS NOT NULL;

-- Bodies of refused requests, for a day and at most 64 MiB (rejects.c); and the headers of those
-- whose signature was not valid, with the signature and without shared tokens, from which
-- `grapnel rejects explain` finds the mistake.
CREATE TABLE reject_bodies (
  n      INTEGER PRIMARY KEY,
  id     TEXT NOT NULL,
  source TEXT NOT NULL,
  at_ms  INTEGER NOT NULL,
  body   BLOB NOT NULL,
  head   BLOB NOT NULL DEFAULT x''     -- packed; empty: of another refusal
) STRICT;
CREATE UNIQUE INDEX reject_bodies_id ON reject_bodies (id);
CREATE INDEX reject_bodies_source ON reject_bodies (source, n);

-- The copy of the sequencer's catalogue of event types (event_types.h): each type with the
-- text of its schema ('': none), …
CREATE TABLE event_types (
  name   TEXT PRIMARY KEY,
  schema TEXT NOT NULL
) STRICT, WITHOUT ROWID;
-- … and the digest of all of it. No row: the sequencer was never asked.
CREATE TABLE event_catalogue (
  one    INTEGER PRIMARY KEY CHECK (one = 1),
  digest TEXT NOT NULL
) STRICT;

.read lib/daemon/acts.sql
.read lib/daemon/jobs.sql
.read proto/links.sql
