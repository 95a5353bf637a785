-- A delivery stays for as long as its job, so that the job can say what became of it and it can be
-- sent again.
ALTER TABLE deliveries ADD COLUMN owner TEXT NOT NULL DEFAULT '';
-- NULL while it is still to be delivered, then 'delivered' or 'failed'.
ALTER TABLE deliveries ADD COLUMN outcome TEXT;
-- When it was last tried, and why that failed.
ALTER TABLE deliveries ADD COLUMN tried INTEGER;
ALTER TABLE deliveries ADD COLUMN error TEXT;

UPDATE deliveries SET owner = (SELECT owner FROM jobs WHERE jobs.number = deliveries.job);

DROP INDEX deliveries_by_time;
DROP INDEX deliveries_of_job;
CREATE INDEX deliveries_by_time ON deliveries (due, number) WHERE outcome IS NULL;
-- Owners take turns: one with many deliveries does not hold up the others.
CREATE INDEX deliveries_of_owner ON deliveries (owner, due, number) WHERE outcome IS NULL;
CREATE INDEX deliveries_of_job ON deliveries (job, number);
