-- The valid transition that an event made of its object's state, for `trace`. Only
-- of sources with `states`. Events of before this table have no row.
CREATE TABLE transitions (
  event      INTEGER PRIMARY KEY,
  object     TEXT NOT NULL,
  from_state TEXT NOT NULL, -- '': the object was new
  to_state   TEXT NOT NULL
) STRICT;
