-- Jobs that a passing failure put back into the queue.

-- As JSON: `protocol::job::Parked`. Stays while the job is tried again.
ALTER TABLE jobs ADD COLUMN parked TEXT;
-- When it was parked and when it may be claimed again; only while it is queued.
ALTER TABLE jobs ADD COLUMN parked_at INTEGER;
ALTER TABLE jobs ADD COLUMN not_before INTEGER;

CREATE INDEX jobs_parked ON jobs (not_before) WHERE not_before IS NOT NULL;
