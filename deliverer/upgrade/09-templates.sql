-- What requests of one kind have in common (deliverer/store/templates.h), so that a delivered
-- attempt costs a number: packed (deliverer/transfer/sent.h), without secrets.
CREATE TABLE templates (
  id      INTEGER PRIMARY KEY AUTOINCREMENT,
  request BLOB NOT NULL,
  used_ms INTEGER NOT NULL     -- to the hour; it goes when history.keep has passed
) STRICT;
-- Of an attempt whose `request` is empty; 0: none is kept.
ALTER TABLE attempts ADD COLUMN template INTEGER NOT NULL DEFAULT 0;
-- By how many seconds webhook-timestamp is later than at_ms.
ALTER TABLE attempts ADD COLUMN stamp_s INTEGER NOT NULL DEFAULT 0;
