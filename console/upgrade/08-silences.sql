-- Alert rules that notify nobody for a while (silences.h).
CREATE TABLE silences (
  rule     TEXT PRIMARY KEY,
  since_ms INTEGER NOT NULL,
  until_ms INTEGER NOT NULL,
  note     TEXT NOT NULL,      -- '': none
  who      TEXT NOT NULL
) STRICT, WITHOUT ROWID;
