-- The last thousand refused requests of each source; reject_bodies.sql has their bodies. A
-- ring: the one at `slot` is overwritten by the one a thousand later.
CREATE TABLE rejects (
    source TEXT NOT NULL,        -- '' where there was none to name
    slot INTEGER NOT NULL,       -- n modulo 1000
    n INTEGER NOT NULL,          -- ascends within the source
    at_ms INTEGER NOT NULL,
    status INTEGER NOT NULL,
    reason TEXT NOT NULL,
    remote TEXT NOT NULL,
    method TEXT NOT NULL,
    path TEXT NOT NULL,
    body_bytes INTEGER NOT NULL,
    headers BLOB NOT NULL,       -- packed, as they are shown: without secrets
    PRIMARY KEY (source, slot)
) STRICT, WITHOUT ROWID;
