-- Generations of class 5 hold digests of what is signed of requests (dedupe.replays),
-- 96 bits of a SHA-256 each, like keys: sequencer/intake/dedupe.h. No table changes; a program
-- that does not know the class must not open the file.
CREATE INDEX key_generations_class ON key_generations(class);
