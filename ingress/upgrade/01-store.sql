-- ingress.db: the archive, which is also the log of the link to the sequencer:
-- a row's number is its number on that link. Rows are only ever appended, and
-- purged from the front once they were handed on.
CREATE TABLE archive (
    n INTEGER PRIMARY KEY,
    event_id TEXT NOT NULL,
    source TEXT NOT NULL,
    received_ms INTEGER NOT NULL, -- wall clock, when the body was whole
    remote TEXT NOT NULL,         -- the peer's address
    secret INTEGER NOT NULL,      -- index of the one that fitted
    headers BLOB NOT NULL,        -- all, in order, packed (proto/headers.h)
    body BLOB NOT NULL            -- as received
) STRICT;

-- Ids ascend (base/ulid.h), so this index is appended to as the table is.
CREATE UNIQUE INDEX archive_by_event ON archive (event_id);
