-- Changes of alerts that the sequencer has to be told (alert_events.h).
CREATE TABLE alert_events (
  n      INTEGER PRIMARY KEY AUTOINCREMENT,
  report TEXT NOT NULL         -- the arguments of its command, as JSON
) STRICT;
