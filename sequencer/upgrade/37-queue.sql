-- The deliveries of an endpoint that is not ordered are in a queue (sequencer/dispatch/lane.h). Before, each
-- workspace had a lane there. Those that wait are put into the rounds in which they would be, those that a
-- deliverer has before all others. Lanes of a version before step 16 are near 0, and are moved later.
ALTER TABLE workspaces ADD COLUMN positions BLOB NOT NULL DEFAULT x'';
ALTER TABLE endpoints ADD COLUMN round INTEGER NOT NULL DEFAULT 0;
CREATE TABLE queue (event, endpoint, lane, PRIMARY KEY (event, endpoint)) WITHOUT ROWID;
INSERT INTO queue(event, endpoint, lane)
  SELECT event, endpoint, -9223372036854775806 + 2 * ((row_number() OVER (PARTITION BY endpoint, lane
    ORDER BY route_order) - 1) / 256) FROM deliveries WHERE status = 0 AND lane < -4611686018427387904;
UPDATE deliveries SET lane = queue.lane FROM queue
  WHERE queue.event = deliveries.event AND queue.endpoint = deliveries.endpoint;
DROP TABLE queue;
UPDATE deliveries SET lane = -9223372036854775807
  WHERE grant_id <> 0 AND status IN (1, 2) AND lane < -4611686018427387904;
