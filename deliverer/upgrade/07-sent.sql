-- What was sent in an attempt that did not deliver: method, URL and headers, packed
-- (deliverer/transfer/sent.h), without secrets. Empty: it delivered, or nothing was sent.
ALTER TABLE attempts ADD COLUMN request BLOB NOT NULL DEFAULT x'';
