-- New names of tables and columns.
ALTER TABLE replays RENAME COLUMN act TO action_id;
