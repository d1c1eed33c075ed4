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
