-- Headers and body of each operational event (operational_archive.h), which no ingress has. Deleted
-- with the event's row.
CREATE TABLE operational_bodies (
  event       INTEGER PRIMARY KEY,
  received_ms INTEGER NOT NULL,
  headers     BLOB NOT NULL,
  body        BLOB NOT NULL
) STRICT;
