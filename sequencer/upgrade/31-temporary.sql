-- Temporary endpoints, those of `grapnel listen`. `temporary` stays when such an endpoint is deleted, as
-- its waiting deliveries end otherwise than those of others.
ALTER TABLE endpoints ADD COLUMN temporary INTEGER NOT NULL DEFAULT 0;
ALTER TABLE managed_endpoints ADD COLUMN unused_ms INTEGER NOT NULL DEFAULT 0;
