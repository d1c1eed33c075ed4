-- Each workspace has a number, for the lanes of its deliveries (sequencer/dispatch/lane.h): the
-- place of its first one, so that new workspaces' deliveries wait at the end of their
-- index. It was a hash of the name before: a delivery of a new workspace then changed a
-- page at random, and a backlog was read in random order.
ALTER TABLE workspaces ADD COLUMN lane INTEGER NOT NULL DEFAULT 0;
UPDATE workspaces SET lane = numbered.lane FROM (
    SELECT name, row_number() OVER (ORDER BY name) AS lane FROM workspaces
  ) AS numbered WHERE numbered.name = workspaces.name;

-- What waits is put into the new lanes as after a change of `ordered`: its grants are
-- recalled (their configuration is another), then its rows are moved.
UPDATE endpoints SET ordered = -1, config = 0;
