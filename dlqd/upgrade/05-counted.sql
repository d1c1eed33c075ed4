-- Since when deaths count as new (wall ms; 0: all do): since this database was made, or
-- put back as a copy. The sequencer sends the dead letters of the last day again then.
CREATE TABLE counted (
  one      INTEGER PRIMARY KEY CHECK (one = 1),
  since_ms INTEGER NOT NULL
) STRICT;
INSERT INTO counted SELECT 1, iif(EXISTS (SELECT 1 FROM hop_in), 0,
  CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER));
