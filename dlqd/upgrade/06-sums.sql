-- Checksums (lib/store/db_sums.h). NULL: a row of before there were any.
ALTER TABLE letters ADD COLUMN sum INTEGER;
ALTER TABLE contents ADD COLUMN sum INTEGER;
