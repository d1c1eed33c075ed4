-- A removed endpoint's row goes, too, when no event is held any more that may have
-- a delivery for it: none above this number has one. 0: it is not removed.
ALTER TABLE endpoints ADD COLUMN gone_after INTEGER NOT NULL DEFAULT 0;

-- What the hop's log says of deliveries has four bits more for their endpoints
-- (delivery_ref()): of tasks (33) and dropped ones (35).
UPDATE hop_log SET ref = (ref >> 16 << 20) | (ref & 65535) WHERE kind IN (33, 35);
