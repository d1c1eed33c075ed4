-- When a person had a delivery, or an event, sent again that was final, refused or a
-- duplicate (0, NULL: nobody did). Its age counts from then, and it is in no latency.
ALTER TABLE deliveries ADD COLUMN reopened_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE events ADD COLUMN reopened_ms INTEGER;
-- When a pause, a hold or a halt of an endpoint last ended (0: never): what was
-- accepted before may have waited for that, and is in no latency.
ALTER TABLE endpoints ADD COLUMN resumed_ms INTEGER NOT NULL DEFAULT 0;

-- Of those from before this column it is not known when.
UPDATE deliveries SET reopened_ms = unixepoch() * 1000 WHERE life > 1 OR act <> 0;

-- As before, with what the ages of open deliveries need.
DROP INDEX deliveries_waiting;
CREATE INDEX deliveries_waiting
  ON deliveries(endpoint, behind, lane, place, status, reopened_ms)
  WHERE status = 0;
DROP INDEX deliveries_out;
CREATE INDEX deliveries_out
  ON deliveries(endpoint, grant_id, status, event, reopened_ms)
  WHERE grant_id <> 0;
