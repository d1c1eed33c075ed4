-- The table of the application in these examples, beside the outbox.
CREATE TABLE orders (
  id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  customer TEXT NOT NULL,
  total INT NOT NULL
);
