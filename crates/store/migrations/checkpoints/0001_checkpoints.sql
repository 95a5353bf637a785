-- Times are nanoseconds since the epoch.

-- Contents of files, each once. The bytes are apart, so that a change of a count rewrites no bytes.
CREATE TABLE contents (
    number INTEGER PRIMARY KEY,
    hash BLOB NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    -- How many runs of neighbouring checkpoints hold it; see runs.rs.
    runs INTEGER NOT NULL,
    -- When somebody who may be about to save a checkpoint last asked for it.
    wanted INTEGER NOT NULL
);

CREATE INDEX contents_held ON contents (size) WHERE runs > 0;
CREATE INDEX contents_free ON contents (wanted) WHERE runs = 0;

CREATE TABLE bytes (
    content INTEGER PRIMARY KEY REFERENCES contents (number),
    bytes BLOB NOT NULL
);

CREATE TABLE checkpoints (
    id INTEGER PRIMARY KEY,
    session TEXT NOT NULL,
    number INTEGER NOT NULL,
    saved INTEGER NOT NULL,
    -- Of `files`, in bytes.
    size INTEGER NOT NULL,
    files BLOB NOT NULL,
    UNIQUE (session, number)
);

CREATE INDEX checkpoints_by_age ON checkpoints (saved, id);
