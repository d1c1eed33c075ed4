-- The traceparent of an event's request. Events from before get a trace id that is made of their id.
ALTER TABLE events ADD COLUMN traceparent TEXT;
