-- Whether an endpoint has ever delivered, and since when (0: it is not) and for which
-- status it is held back because it refuses everything (deliverer/throttle/hold.h).
ALTER TABLE endpoints ADD COLUMN healthy INTEGER NOT NULL DEFAULT 0;
ALTER TABLE endpoints ADD COLUMN held_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE endpoints ADD COLUMN held_status INTEGER NOT NULL DEFAULT 0;
