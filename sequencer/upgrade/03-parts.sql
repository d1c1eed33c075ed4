-- Events that came in one request: `request` is its own row of events.
CREATE TABLE parts (
  event   INTEGER PRIMARY KEY,
  request INTEGER NOT NULL
) STRICT;
CREATE INDEX parts_request ON parts(request);
