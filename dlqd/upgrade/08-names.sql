-- New names of tables and columns. Triggers name the columns that they write.
DROP TRIGGER letters_come;
CREATE TRIGGER letters_come AFTER INSERT ON letters BEGIN
  INSERT INTO tallies(state, endpoint, reason, count)
    VALUES (new.state, ifnull(new.endpoint, ''), new.reason, 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;
DROP TRIGGER letters_change;
CREATE TRIGGER letters_change AFTER UPDATE OF state, reason ON letters BEGIN
  UPDATE tallies SET count = count - 1 WHERE state = old.state AND
    endpoint = ifnull(old.endpoint, '') AND reason = old.reason;
  INSERT INTO tallies(state, endpoint, reason, count)
    VALUES (new.state, ifnull(new.endpoint, ''), new.reason, 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;
ALTER TABLE decisions RENAME COLUMN hop_n TO link_n;
ALTER TABLE redirects RENAME COLUMN hop_n TO link_n;
ALTER TABLE redirects RENAME COLUMN act TO action_id;
DROP TRIGGER letters_come;
DROP TRIGGER letters_go;
DROP TRIGGER letters_change;
DROP INDEX letters_newest;
DROP INDEX letters_by_event;
DROP INDEX letters_by_age;
DROP INDEX history_by_letter;
DROP INDEX requeues_by_letter;
DROP INDEX redirects_by_letter;
ALTER TABLE letters RENAME TO dead_letters;
ALTER TABLE contents RENAME COLUMN letter TO dead_letter;
ALTER TABLE history RENAME COLUMN letter TO dead_letter;
ALTER TABLE requeues RENAME COLUMN letter TO dead_letter;
ALTER TABLE redirects RENAME COLUMN letter TO dead_letter;
ALTER TABLE decisions RENAME COLUMN letter_id TO dead_letter_id;
CREATE INDEX dead_letters_newest ON dead_letters
  (state, dead_ms, n, endpoint, workspace, type, reason, source);
CREATE INDEX dead_letters_by_event ON dead_letters (event_id);
CREATE INDEX dead_letters_by_age ON dead_letters (state, moved_ms);
CREATE INDEX history_by_dead_letter ON history (dead_letter);
CREATE INDEX requeues_by_dead_letter ON requeues (dead_letter);
CREATE INDEX redirects_by_dead_letter ON redirects (dead_letter);
CREATE TRIGGER dead_letters_come AFTER INSERT ON dead_letters BEGIN
  INSERT INTO tallies(state, endpoint, reason, count)
    VALUES (new.state, ifnull(new.endpoint, ''), new.reason, 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;
CREATE TRIGGER dead_letters_go AFTER DELETE ON dead_letters BEGIN
  UPDATE tallies SET count = count - 1 WHERE state = old.state AND
    endpoint = ifnull(old.endpoint, '') AND reason = old.reason;
END;
CREATE TRIGGER dead_letters_change AFTER UPDATE OF state, reason ON dead_letters BEGIN
  UPDATE tallies SET count = count - 1 WHERE state = old.state AND
    endpoint = ifnull(old.endpoint, '') AND reason = old.reason;
  INSERT INTO tallies(state, endpoint, reason, count)
    VALUES (new.state, ifnull(new.endpoint, ''), new.reason, 1)
    ON CONFLICT DO UPDATE SET count = count + 1;
END;
ALTER TABLE dead_letters RENAME COLUMN life TO generation;
ALTER TABLE requeues RENAME COLUMN life TO generation;
ALTER TABLE decisions RENAME COLUMN life TO generation;
