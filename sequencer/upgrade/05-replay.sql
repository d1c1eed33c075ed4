-- What an operator sends again. `act` names the last such act that opened this
-- delivery (0: none), so that one that is said twice is done once. `died` is
-- the last life that ended in a letter: a life may also begin without one.
ALTER TABLE deliveries ADD COLUMN act INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deliveries ADD COLUMN died INTEGER NOT NULL DEFAULT 0;
UPDATE deliveries SET died = life - 1 WHERE life > 1;

-- Final deliveries that are to be sent again as soon as the copy of them that
-- is out somewhere has been answered for.
CREATE TABLE agains (
  event    INTEGER NOT NULL,
  endpoint INTEGER NOT NULL,
  act      INTEGER NOT NULL,
  PRIMARY KEY (event, endpoint)
) STRICT, WITHOUT ROWID;
