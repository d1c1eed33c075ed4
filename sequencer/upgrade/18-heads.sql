-- Headers that many events have word for word, because one request or connection brought
-- them all, are stored once: a body's `headers` has then only what is its own, and `head`
-- is the row with the rest; 0: it has all of them. A row goes with the last body that
-- refers to it.
CREATE TABLE heads (
  id      INTEGER PRIMARY KEY,
  headers BLOB NOT NULL
) STRICT;
ALTER TABLE bodies ADD COLUMN head INTEGER NOT NULL DEFAULT 0;
CREATE INDEX bodies_head ON bodies(head) WHERE head <> 0;
