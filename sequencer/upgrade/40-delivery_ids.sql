-- Events are found by the id of their delivery in blocks of hashes, which the first turns write for the events that are here.
DROP INDEX events_delivery_id;
CREATE TABLE delivery_ids (
  part INTEGER PRIMARY KEY,
  ids  BLOB NOT NULL
) STRICT;
