-- The only workspace that a token of the role `workspace` is for; '': the token has another role.
ALTER TABLE tokens ADD COLUMN workspace TEXT NOT NULL DEFAULT '';
-- Endpoints that were deleted and had one workspace: its tokens still see their deliveries.
CREATE TABLE deleted_endpoints (
  id         INTEGER PRIMARY KEY,         -- in `endpoints`
  workspace  TEXT NOT NULL,
  deleted_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX deleted_endpoints_workspace ON deleted_endpoints(workspace, deleted_ms);
