-- The keys of a generation are in segments (lib/intake/dedupe.h). Generations from before have none, and
-- keep the form of their rows until they are deleted.
ALTER TABLE key_generations ADD COLUMN segmented INTEGER NOT NULL DEFAULT 0;
