-- The provider's id of the delivery by which an event came, beside that of the event
-- itself. '': the two are the same. NULL: it gave none, or the event is one of a
-- request of several (then the request's row has it), or of before this column; then
-- provider_id had it where the provider names no event.
ALTER TABLE events ADD COLUMN delivery_id TEXT;
CREATE INDEX events_delivery_id ON events(delivery_id) WHERE delivery_id <> '';
