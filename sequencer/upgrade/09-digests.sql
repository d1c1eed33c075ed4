-- What each event with an idempotency key says (published_digest()), to tell a
-- repeat of the key from its reuse for another event. Events of before this table
-- have no row.
CREATE TABLE event_digests (
  event  INTEGER PRIMARY KEY,
  digest BLOB NOT NULL
) STRICT;
