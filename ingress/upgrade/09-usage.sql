-- How many bytes of the archive each source has (ingress/archive/store_usage.h). Rows that are here
-- already count for nobody, so that nothing walks the archive: they are the oldest, and
-- go first.
CREATE TABLE usage (
    source TEXT PRIMARY KEY,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE usage_counted (
    from_n INTEGER NOT NULL,    -- rows behind this one are counted, …
    counted_n INTEGER NOT NULL  -- … up to this one
) STRICT;
INSERT INTO usage_counted SELECT n, n FROM (
    SELECT ifnull((SELECT n FROM archive ORDER BY n DESC LIMIT 1), 0) AS n);
