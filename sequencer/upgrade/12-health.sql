-- How long an endpoint has failed continuously, counting only time in which its
-- deliverer sent heartbeats: an outage of Grapnel is not the endpoint's failure.
ALTER TABLE endpoints ADD COLUMN failing_for_ms INTEGER NOT NULL DEFAULT 0;

-- 0: no attempt of this delivery can have reached its endpoint, so that a retry is
-- not marked as a replay. For rows from before this column nothing is known: 1.
ALTER TABLE deliveries ADD COLUMN sent INTEGER NOT NULL DEFAULT 1;
