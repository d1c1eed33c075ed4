-- Checksums (lib/store/db_sums.h). NULL: a row of before there were any.
ALTER TABLE tasks ADD COLUMN sum INTEGER;
