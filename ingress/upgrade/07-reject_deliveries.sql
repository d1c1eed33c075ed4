-- By which delivery of its provider's a refused request came, where a header says so:
-- the provider shows that id, and asks why. NULL: none, or a row of before.
ALTER TABLE rejects ADD COLUMN delivery_id TEXT;
CREATE INDEX rejects_delivery_id ON rejects (delivery_id)
    WHERE delivery_id IS NOT NULL;
