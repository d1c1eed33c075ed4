-- A redirect stays as long as its letter, so that it can be said again when the
-- sequencer comes back from an older copy. `hop_n` 0: the hop hasn't got it yet;
-- -1: it was acknowledged.
CREATE INDEX redirects_on_way ON redirects (n) WHERE hop_n >= 0;
