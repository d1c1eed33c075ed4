-- Dead letters stay in the log to dlqd for a day after dlqd has acknowledged them, so
-- that a dlqd that comes back from an older copy gets them again. Meanwhile the
-- delivery may be sent again, so each row says itself how its generation ended.
ALTER TABLE letters ADD COLUMN reason TEXT NOT NULL DEFAULT ''; -- '': recovered
ALTER TABLE letters ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
ALTER TABLE letters ADD COLUMN first_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE letters ADD COLUMN http_status INTEGER NOT NULL DEFAULT 0;
ALTER TABLE letters ADD COLUMN error TEXT NOT NULL DEFAULT '';

-- Rows that wait to be sent. 4 is EVENT_IGNORED.
UPDATE letters SET reason = d.reason, attempts = d.attempts, first_ms = d.first_ms,
  http_status = d.http_status, error = d.error
  FROM deliveries d WHERE d.event = letters.event AND d.endpoint = letters.endpoint;
UPDATE letters SET reason = CASE e.status WHEN 4 THEN 'invalid_transition'
    ELSE 'refused:' || ifnull(e.reason, '') END
  FROM events e WHERE letters.endpoint = 0 AND e.n = letters.event;
