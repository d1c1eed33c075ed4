-- The durable hop's own tables, part of each process's database.

-- One row for each link we send on.
CREATE TABLE hop_out (
  link   INTEGER PRIMARY KEY,
  peer   TEXT NOT NULL UNIQUE,
  next   INTEGER NOT NULL,          -- the number that the next row gets
  cursor INTEGER NOT NULL,          -- acknowledged up to here
  floor  INTEGER NOT NULL,          -- rows below are held no more
  set_back INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The log: numbers that point at rows which the process has anyway.
CREATE TABLE hop_log (
  link INTEGER NOT NULL,
  n    INTEGER NOT NULL,
  kind INTEGER NOT NULL,
  ref  INTEGER NOT NULL,
  PRIMARY KEY (link, n)
) STRICT, WITHOUT ROWID;

-- Which start of this process wrote which rows: those from `first` on.
CREATE TABLE hop_out_runs (
  link  INTEGER NOT NULL,
  first INTEGER NOT NULL,
  run   INTEGER NOT NULL,
  PRIMARY KEY (link, first)
) STRICT, WITHOUT ROWID;

-- One row for each link we receive on: our place, and how it was reached.
CREATE TABLE hop_in (
  link  INTEGER PRIMARY KEY,
  peer  TEXT NOT NULL UNIQUE,
  inbox TEXT NOT NULL,
  n     INTEGER NOT NULL,
  lost     INTEGER NOT NULL DEFAULT 0,
  set_back INTEGER NOT NULL DEFAULT 0,
  unprocessable INTEGER NOT NULL DEFAULT 0,
  start_n INTEGER NOT NULL DEFAULT -1, -- the place at the last start …
  stalls  INTEGER NOT NULL DEFAULT 0,  -- … and unclean starts there in a row
  trying  INTEGER NOT NULL DEFAULT 0,  -- after such: the message being applied
  tries   INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE hop_in_runs (
  link  INTEGER NOT NULL,
  first INTEGER NOT NULL,
  run   INTEGER NOT NULL,
  PRIMARY KEY (link, first)
) STRICT, WITHOUT ROWID;

-- What could not be applied, with its bytes, for a person to look at.
CREATE TABLE hop_unprocessable (
  id    INTEGER PRIMARY KEY,
  peer  TEXT NOT NULL,
  n     INTEGER NOT NULL,
  at_ms INTEGER NOT NULL,
  why   TEXT NOT NULL,
  bytes BLOB NOT NULL
) STRICT;

-- Numbers that nobody holds any more.
CREATE TABLE hop_lost (
  id     INTEGER PRIMARY KEY,
  peer   TEXT NOT NULL,
  from_n INTEGER NOT NULL,
  to_n   INTEGER NOT NULL,
  at_ms  INTEGER NOT NULL
) STRICT;
