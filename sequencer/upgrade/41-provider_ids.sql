-- Events are found by all ids of their providers in blocks of hashes (sequencer/query/provider_ids.h), which the first turns
-- write for the events that are here.
DROP INDEX events_provider_id;
DROP TABLE delivery_ids;
CREATE TABLE provider_ids (
  part INTEGER PRIMARY KEY,
  ids  BLOB NOT NULL
) STRICT;
