-- What an endpoint answered, with each attempt: the headers of its answer, and
-- when each step was done, in µs since the attempt began (0: there was none).
ALTER TABLE attempts ADD COLUMN headers BLOB NOT NULL DEFAULT x'';
ALTER TABLE attempts ADD COLUMN dns_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN connect_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN tls_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN first_byte_us INTEGER NOT NULL DEFAULT 0;
ALTER TABLE attempts ADD COLUMN total_us INTEGER NOT NULL DEFAULT 0;
-- libcurl's CURL_HTTP_VERSION_…; 0 without an answer.
ALTER TABLE attempts ADD COLUMN http_version INTEGER NOT NULL DEFAULT 0;
-- Requests that were begun: 2 when a kept connection was dead and libcurl sent
-- it again.
ALTER TABLE attempts ADD COLUMN sends INTEGER NOT NULL DEFAULT 0;
