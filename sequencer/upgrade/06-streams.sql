-- What a source's numbers are. When that changes, its streams begin anew with the
-- next event: numbers from before and after can't be compared.
CREATE TABLE orders (
  source TEXT PRIMARY KEY,
  form   INTEGER NOT NULL,             -- digest of where the numbers are found
  epoch  INTEGER NOT NULL              -- how often that has changed
) STRICT, WITHOUT ROWID;
ALTER TABLE streams ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;
-- (The gaps of a stream that began anew have its number below 0.)

-- In which life of its letter the held event was refused; 0: it was not.
ALTER TABLE buffer ADD COLUMN life INTEGER NOT NULL DEFAULT 0;
