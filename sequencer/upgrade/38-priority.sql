-- Deliveries of each priority have a queue of their own (sequencer/dispatch/lane.h). Those that wait are in that of
-- `normal`, whose lanes are as before. An earlier program would not find those of the others.
ALTER TABLE endpoints ADD COLUMN round_high INTEGER NOT NULL DEFAULT 0;
ALTER TABLE endpoints ADD COLUMN round_low INTEGER NOT NULL DEFAULT 0;
