-- Audit rows are chained by keyed hashes. The chain begins after the rows that are there.
ALTER TABLE audit ADD COLUMN salt BLOB;
ALTER TABLE audit ADD COLUMN content BLOB;
ALTER TABLE audit ADD COLUMN hash BLOB;
ALTER TABLE audit ADD COLUMN key TEXT;
ALTER TABLE audit ADD COLUMN erased BLOB;

CREATE TABLE audit_anchor (
  one   INTEGER PRIMARY KEY CHECK (one = 1),
  n     INTEGER NOT NULL,
  hash  BLOB NOT NULL,
  at_ms INTEGER NOT NULL,
  older INTEGER NOT NULL,
  key   TEXT NOT NULL,
  mac   BLOB NOT NULL
) STRICT;
