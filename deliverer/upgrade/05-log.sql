-- What an attempt came to is itself a row of the hop's log: its number here is
-- its number there, so that it is written once. The end of a grant (`drained`)
-- is such a row too, of outcome 0.
CREATE TABLE told (
  n             INTEGER PRIMARY KEY,
  attempt_id    INTEGER NOT NULL,  -- 0: nothing was tried (released)
  grant_id      INTEGER NOT NULL,
  endpoint      TEXT NOT NULL,
  event_id      TEXT NOT NULL,
  outcome       INTEGER NOT NULL,  -- enum outcome (schema.h)
  http_status   INTEGER NOT NULL,
  error         TEXT NOT NULL,
  reason        TEXT NOT NULL,
  at_ms         INTEGER NOT NULL,
  duration_ms   INTEGER NOT NULL,
  attempts      INTEGER NOT NULL,
  first_ms      INTEGER NOT NULL,
  next_ms       INTEGER NOT NULL,
  response      BLOB NOT NULL,
  headers       BLOB NOT NULL,
  dns_us        INTEGER NOT NULL,
  connect_us    INTEGER NOT NULL,
  tls_us        INTEGER NOT NULL,
  first_byte_us INTEGER NOT NULL,
  total_us      INTEGER NOT NULL,
  http_version  INTEGER NOT NULL,
  sends         INTEGER NOT NULL
) STRICT;
INSERT INTO told
  SELECT hop_n, attempt_id, grant_id, endpoint, event_id, outcome, http_status,
         error, reason, at_ms, duration_ms, attempts, first_ms, next_ms,
         response, headers, dns_us, connect_us, tls_us, first_byte_us, total_us,
         http_version, sends
  FROM attempts ORDER BY hop_n;
INSERT INTO told
  SELECT l.n, 0, l.ref, '', '', 0, 0, '', '', 0, 0, 0, 0, 0, x'', x'', 0, 0, 0,
         0, 0, 0, 0
  FROM hop_log l JOIN hop_out o USING (link)
  WHERE o.peer = 'sequencer' AND l.kind = 37; -- WIRE_KIND_DRAINED
DELETE FROM hop_log WHERE link IN
  (SELECT link FROM hop_out WHERE peer = 'sequencer');
DROP TABLE attempts;
ALTER TABLE told RENAME TO attempts;
CREATE INDEX attempts_event ON attempts (event_id);
