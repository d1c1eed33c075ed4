-- Where an event is in the archive, by its id. Ids made from an idempotency key
-- ('evt_8' and above) are all here. Those made from time ascend with n: of them
-- only one of each 64 numbers is, and the others are looked for behind it
-- (ingress/archive/store_ids.c). Every row here has its row in the archive.
CREATE TABLE archive_ids (
    event_id TEXT PRIMARY KEY,
    n INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- In place of an index of all ids. That alone is read here, in its order: the
-- archive may be fifty times as large.
WITH RECURSIVE entered(event_id, n) AS (
    SELECT event_id, n FROM (
        SELECT event_id, n FROM archive INDEXED BY archive_by_event
        WHERE event_id < 'evt_8' ORDER BY event_id LIMIT 1)
    UNION ALL
    SELECT a.event_id, a.n
    FROM entered e CROSS JOIN archive a INDEXED BY archive_by_event
    WHERE a.event_id = (
        SELECT event_id FROM archive INDEXED BY archive_by_event
        WHERE event_id > e.event_id AND event_id < 'evt_8' AND n >= e.n + 64
        ORDER BY event_id LIMIT 1))
INSERT INTO archive_ids SELECT event_id, n FROM entered;

INSERT INTO archive_ids
    SELECT event_id, n FROM archive INDEXED BY archive_by_event
    WHERE event_id >= 'evt_8' ORDER BY event_id;

DROP INDEX archive_by_event;
