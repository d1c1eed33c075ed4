-- A refused request has an id of its own, and for a day its body: at most 64 MiB
-- in all, and those of the last thousand of each source (ingress/intake/rejects.c). A row
-- of before has no id.
ALTER TABLE rejects ADD COLUMN id TEXT NOT NULL DEFAULT '';
CREATE INDEX rejects_id ON rejects (id) WHERE id <> '';
CREATE TABLE reject_bodies (
    n INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    source TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX reject_bodies_id ON reject_bodies (id);
CREATE INDEX reject_bodies_source ON reject_bodies (source, n);
