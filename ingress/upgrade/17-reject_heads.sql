-- The headers of a refused request with its signature, without shared tokens: `grapnel rejects
-- explain` compares it. Rows of before have none.
ALTER TABLE reject_bodies ADD COLUMN head BLOB NOT NULL DEFAULT x'';
