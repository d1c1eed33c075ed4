-- Checksums (lib/store/db_sums.h). NULL: a row of before there were any.
ALTER TABLE archive ADD COLUMN sum INTEGER;
ALTER TABLE heads ADD COLUMN sum INTEGER;
