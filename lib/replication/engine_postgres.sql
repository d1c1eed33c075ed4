-- The tables of replication in PostgreSQL, and what the role of Grapnel's processes may do with them.
--
-- Run this once, as a role that may create roles and schemas in the database:
--   psql -v ON_ERROR_STOP=1 -d DATABASE -f FILE
-- Then give the role a way to log in (a password, a certificate), and name it in `replicate.database`.
CREATE ROLE grapnel LOGIN;
CREATE SCHEMA grapnel;

-- Who owns a store, and which turn is the last in its log: a row for each process. It is updated for each turn. A page
-- with space for many versions of a row keeps these updates away from the index.
CREATE TABLE grapnel.owner (
  process text PRIMARY KEY,
  history bytea NOT NULL,  -- 16 bytes; a new one begins by an operator's command only
  epoch bigint NOT NULL,   -- rises at each takeover
  holder bytea NOT NULL,   -- 16 random bytes of each start of a process; empty: released
  last bigint NOT NULL,    -- the number of the last turn
  chain bytea NOT NULL,    -- SHA-256 of all turns up to the last one
  beat bigint NOT NULL,    -- rises with each statement of the owner
  claim bigint NOT NULL,   -- the beat at which a standby began to wait; -1: none did
  schema integer NOT NULL, -- of the process's database
  host text NOT NULL,      -- of the last holder, for people
  heir text NOT NULL       -- a host for which it was released; others wait as for a silent holder
) WITH (fillfactor = 10, vacuum_truncate = false,
        autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

-- Turns: the changed pages, compressed and encrypted, in parts of at most 256 KiB. Old ones are deleted all the time, so
-- autovacuum must not fall behind. The table is as large as its turns and those of some minutes.
CREATE TABLE grapnel.log (
  process text NOT NULL,
  n bigint NOT NULL,
  part integer NOT NULL,   -- from 1
  epoch bigint NOT NULL,
  chain bytea NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (process, n, part)
) WITH (autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_cost_delay = 0);
-- Encrypted bytes cannot be compressed.
ALTER TABLE grapnel.log ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- How far each host has read: a row for each process and host.
CREATE TABLE grapnel.node (
  process text NOT NULL,
  host text NOT NULL,
  n bigint NOT NULL,
  chain bytea NOT NULL,
  ready boolean NOT NULL,  -- may take over
  why text NOT NULL,       -- why it is not ready
  peers integer NOT NULL,  -- active processes of the pipeline that it reaches
  seen timestamptz NOT NULL,
  PRIMARY KEY (process, host)
) WITH (fillfactor = 10, vacuum_truncate = false,
        autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

-- Whole databases, encrypted, in parts of at most 256 KiB. Part -1 is the manifest, which is written last. Parts below -1
-- are slices of turn n, which is too large for the log, where a short row stands for it.
CREATE TABLE grapnel.snapshot (
  process text NOT NULL,
  n bigint NOT NULL,       -- the last turn in it
  epoch bigint NOT NULL,
  part bigint NOT NULL,
  bytes bytea NOT NULL,
  PRIMARY KEY (process, n, epoch, part)
) WITH (autovacuum_vacuum_cost_delay = 0, toast.autovacuum_vacuum_cost_delay = 0);
CREATE INDEX snapshot_manifests ON grapnel.snapshot (process, n, epoch) WHERE part = -1;
ALTER TABLE grapnel.snapshot ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- To see whether a synchronous standby is connected.
GRANT pg_read_all_stats TO grapnel;
GRANT USAGE ON SCHEMA grapnel TO grapnel;
GRANT SELECT, INSERT, UPDATE, DELETE ON grapnel.owner, grapnel.node TO grapnel;
GRANT SELECT, INSERT, DELETE ON grapnel.log TO grapnel;
GRANT SELECT, INSERT, UPDATE, DELETE ON grapnel.snapshot TO grapnel;
