-- The head of a request that brought several rows of the archive, once: `n` is the first
-- of them, `last_n` the last. Their own `headers` are empty then, and `head` is this `n`;
-- 0: the row has its own.
CREATE TABLE heads (
    n INTEGER PRIMARY KEY,
    last_n INTEGER NOT NULL,
    headers BLOB NOT NULL
) STRICT;
ALTER TABLE archive ADD COLUMN head INTEGER NOT NULL DEFAULT 0;
