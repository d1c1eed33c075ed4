-- How hard to try a delivery, as its route or its event chose. Deliveries from before have the
-- policies of their endpoints.
ALTER TABLE deliveries ADD COLUMN retry_choice TEXT;
