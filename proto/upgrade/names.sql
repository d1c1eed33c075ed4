-- New names of tables and columns of the durable link.
ALTER TABLE hop_out RENAME TO link_out;
ALTER TABLE hop_in RENAME TO link_in;
ALTER TABLE hop_log RENAME TO link_log;
ALTER TABLE hop_out_runs RENAME TO link_out_runs;
ALTER TABLE hop_in_runs RENAME TO link_in_runs;
ALTER TABLE hop_lost RENAME TO link_lost;
ALTER TABLE hop_unprocessable RENAME TO link_unprocessable;
ALTER TABLE link_out_runs RENAME TO link_out_epochs;
ALTER TABLE link_out_epochs RENAME COLUMN run TO epoch;
ALTER TABLE link_in_runs RENAME TO link_in_epochs;
ALTER TABLE link_in_epochs RENAME COLUMN run TO epoch;
