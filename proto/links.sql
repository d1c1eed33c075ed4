-- The durable link: these tables are part of every process's database (proto/links.h).

-- Outgoing links.
CREATE TABLE link_out (
  link     INTEGER PRIMARY KEY,
  peer     TEXT NOT NULL UNIQUE,        -- the receiver's name
  next     INTEGER NOT NULL,            -- the number that the next message gets
  cursor   INTEGER NOT NULL,            -- the receiver has acknowledged all up to this number
  floor    INTEGER NOT NULL,            -- messages below this number are deleted
  set_back INTEGER NOT NULL DEFAULT 0   -- how often either end was restored from an older copy
) STRICT;

-- The logs of outgoing links. Each row refers to a row of the process's own tables, of which
-- the message is made when it is sent.
CREATE TABLE link_log (
  link INTEGER NOT NULL,
  n    INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  ref  INTEGER NOT NULL,
  PRIMARY KEY (link, n)
) STRICT, WITHOUT ROWID;

-- Which start of this process wrote which messages: `epoch` wrote those from `first` on.
CREATE TABLE link_out_epochs (
  link  INTEGER NOT NULL,
  first INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  PRIMARY KEY (link, first)
) STRICT, WITHOUT ROWID;

-- Incoming links.
CREATE TABLE link_in (
  link          INTEGER PRIMARY KEY,
  peer          TEXT NOT NULL UNIQUE,         -- the sender's name …
  inbox         TEXT NOT NULL,                -- … and its address
  n             INTEGER NOT NULL,             -- the last message that was applied
  lost          INTEGER NOT NULL DEFAULT 0,   -- messages that no process has any more
  set_back      INTEGER NOT NULL DEFAULT 0,   -- how often either end was restored from an older copy
  unprocessable INTEGER NOT NULL DEFAULT 0,   -- messages that were set aside
  start_n       INTEGER NOT NULL DEFAULT -1,  -- `n` at the last start …
  stalls        INTEGER NOT NULL DEFAULT 0,   -- … and consecutive crashes with that `n`
  trying        INTEGER NOT NULL DEFAULT 0,   -- after such crashes: the message being applied …
  tries         INTEGER NOT NULL DEFAULT 0    -- … and how often that was tried
) STRICT;

-- Which start of the sender wrote which of the messages that were received.
CREATE TABLE link_in_epochs (
  link  INTEGER NOT NULL,
  first INTEGER NOT NULL,
  epoch INTEGER NOT NULL,
  PRIMARY KEY (link, first)
) STRICT, WITHOUT ROWID;

-- Messages that could not be applied, for a person to look at.
CREATE TABLE link_unprocessable (
  id    INTEGER PRIMARY KEY,
  peer  TEXT NOT NULL,
  n     INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  why   TEXT NOT NULL,
  bytes BLOB NOT NULL
) STRICT;

-- Ranges of messages that no process has any more.
CREATE TABLE link_lost (
  id     INTEGER PRIMARY KEY,
  peer   TEXT NOT NULL,
  from_n INTEGER NOT NULL,
  to_n   INTEGER NOT NULL,
  at_ms  INTEGER NOT NULL
) STRICT;
