-- Times are nanoseconds since the epoch. Ids are 16 bytes, and sort by age.

CREATE TABLE jobs (
    number INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    owner TEXT NOT NULL,
    -- As `protocol::job::Status` has it; follows from `state`.
    status TEXT NOT NULL,
    -- The place among the owner's jobs that have not ended, NULL for those that have. Of one place,
    -- the older is first. Kept for as long as the job has not ended, so that one that was
    -- interrupted is not put behind others.
    place INTEGER,
    epoch INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    created INTEGER NOT NULL,
    started INTEGER,
    ended INTEGER,
    ran_millis INTEGER NOT NULL,
    session TEXT,
    messages INTEGER NOT NULL,
    crashes INTEGER NOT NULL,
    artifact_bytes INTEGER,
    -- Under which the owner scheduled it, and the hash of what was asked.
    idempotency_key TEXT,
    fingerprint BLOB,
    -- As JSON.
    state TEXT NOT NULL,
    spending TEXT NOT NULL,
    artifact TEXT,
    -- As JSON, without the task.
    request TEXT NOT NULL,
    task TEXT NOT NULL,
    result TEXT
);

CREATE INDEX jobs_of_owner ON jobs (owner, id);
CREATE INDEX jobs_of_status ON jobs (status, id);
CREATE INDEX jobs_of_owner_and_status ON jobs (owner, status, id);
CREATE INDEX jobs_in_line ON jobs (owner, place, id, status) WHERE place IS NOT NULL;
CREATE INDEX jobs_by_end ON jobs (ended, id) WHERE place IS NULL;
CREATE INDEX jobs_of_session ON jobs (session) WHERE session IS NOT NULL;
CREATE INDEX jobs_with_artifact ON jobs (artifact_bytes) WHERE artifact_bytes IS NOT NULL;
CREATE UNIQUE INDEX jobs_by_key ON jobs (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- The words of tasks.
CREATE VIRTUAL TABLE words USING fts5 (
    task, content = 'jobs', content_rowid = 'number', tokenize = 'unicode61 remove_diacritics 2'
);

-- Words of a forgotten job leave the index at once, not with some later merge.
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);

CREATE TRIGGER words_of_new_job AFTER INSERT ON jobs BEGIN
    INSERT INTO words (rowid, task) VALUES (new.number, new.task);
END;

CREATE TRIGGER words_of_forgotten_job AFTER DELETE ON jobs BEGIN
    INSERT INTO words (words, rowid, task) VALUES ('delete', old.number, old.task);
END;

-- All but the first, which is the task.
CREATE TABLE messages (
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    time INTEGER NOT NULL,
    text TEXT NOT NULL,
    PRIMARY KEY (job, number)
) WITHOUT ROWID;

-- What webhooks are still to be told. A number is never given twice.
CREATE TABLE deliveries (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    job INTEGER NOT NULL REFERENCES jobs (number) ON DELETE CASCADE,
    due INTEGER NOT NULL,
    tries INTEGER NOT NULL,
    body TEXT NOT NULL
);

CREATE INDEX deliveries_by_time ON deliveries (due, number);
CREATE INDEX deliveries_of_job ON deliveries (job);

CREATE TABLE keys (
    id BLOB PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    user TEXT NOT NULL,
    role TEXT NOT NULL,
    label TEXT NOT NULL,
    prefix TEXT NOT NULL,
    created INTEGER NOT NULL,
    revoked INTEGER
) WITHOUT ROWID;

CREATE INDEX keys_by_age ON keys (created, id);

CREATE TABLE logins (
    hash BLOB PRIMARY KEY,
    key BLOB NOT NULL REFERENCES keys (id) ON DELETE CASCADE,
    until INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX logins_of_key ON logins (key);
CREATE INDEX logins_by_end ON logins (until);

-- One row, written to see whether anything can be written.
CREATE TABLE checks (only INTEGER PRIMARY KEY CHECK (only = 1), count INTEGER NOT NULL);
