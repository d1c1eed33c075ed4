-- Events that an operator sends again. A row has a number of the link to the
-- sequencer, like one of the archive, and points at the archived request: no
-- body is kept twice. The archive keeps that row until this one was handed on.
CREATE TABLE replays (
    n INTEGER PRIMARY KEY,
    archived INTEGER NOT NULL,   -- n of the request in the archive
    act INTEGER NOT NULL,        -- 64 random bits: applied once
    at_ms INTEGER NOT NULL,
    event_id TEXT NOT NULL,      -- the request's, or of one event in it
    new_id TEXT NOT NULL,        -- taken as a new event of this id; '': not
    endpoint TEXT NOT NULL,      -- '': all
    always INTEGER NOT NULL,     -- 1: that one, even if it does not want it
    who TEXT NOT NULL
) STRICT;
CREATE INDEX replays_archived ON replays (archived, n);
CREATE INDEX replays_event ON replays (event_id);
CREATE UNIQUE INDEX replays_new ON replays (new_id) WHERE new_id <> '';
