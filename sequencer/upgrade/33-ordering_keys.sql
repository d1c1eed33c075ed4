-- A producer's event may have an ordering key; deliveries of different keys are in lanes of their own
-- (sequencer/dispatch/lane.h). Events from before have none, so their deliveries stay in their lanes.
ALTER TABLE events ADD COLUMN ordering_key TEXT;
ALTER TABLE deliveries ADD COLUMN lane_key INTEGER NOT NULL DEFAULT 0;
ALTER TABLE halts ADD COLUMN lane_key INTEGER NOT NULL DEFAULT 0;
DROP INDEX deliveries_lane;
CREATE INDEX deliveries_lane
  ON deliveries(endpoint, lane, lane_key, behind, route_order)
  WHERE +lane >= 0 AND (status < 3 OR grant_id <> 0);
DROP INDEX halts_lane;
CREATE INDEX halts_lane ON halts(endpoint, lane, lane_key, route_order);
