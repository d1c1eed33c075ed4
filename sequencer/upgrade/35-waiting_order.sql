-- Deliveries that wait for the one before in their lane are in this index in the order of routing: by
-- lane, each of them was in a page of its own.
DROP INDEX deliveries_waiting;
CREATE INDEX deliveries_waiting
  ON deliveries(endpoint, behind, iif(behind, 0, lane), route_order, status, reopened_ms)
  WHERE status = 0;
