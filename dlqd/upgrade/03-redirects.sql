-- A letter that goes to another endpoint: what the hop's log points at. The
-- letter is resolved, and stays with its content until this is acknowledged;
-- then this goes. `act`: 64 random bits, by which it is done once.
CREATE TABLE redirects (
  n         INTEGER PRIMARY KEY AUTOINCREMENT,
  hop_n     INTEGER NOT NULL,             -- of the link to the sequencer
  sequencer TEXT NOT NULL,
  letter    INTEGER NOT NULL,
  endpoint  TEXT NOT NULL,                -- who gets it
  act       INTEGER NOT NULL
) STRICT;
CREATE INDEX redirects_by_letter ON redirects (letter);
