-- Times are nanoseconds since the epoch.

-- What a list of sessions shows: the fold over each session's events, kept in step with them.
CREATE TABLE sessions (
    number INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    begun INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    title TEXT NOT NULL,
    workspace TEXT NOT NULL,
    model TEXT NOT NULL,
    turns INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cache_creation_input_tokens INTEGER NOT NULL,
    cache_read_input_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    -- In US dollars; NULL when any part of it is unknown.
    cost REAL,
    outcome TEXT,
    events INTEGER NOT NULL
);

CREATE INDEX sessions_of_workspace ON sessions (workspace, name);

-- Only ever appended to; seq is contiguous from 1 on.
CREATE TABLE events (
    session INTEGER NOT NULL REFERENCES sessions (number),
    seq INTEGER NOT NULL,
    version INTEGER NOT NULL,
    time INTEGER NOT NULL,
    kind TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session, seq)
);

CREATE TABLE outputs (
    session INTEGER NOT NULL REFERENCES sessions (number),
    number INTEGER NOT NULL,
    bytes BLOB NOT NULL,
    PRIMARY KEY (session, number)
);

-- Words of prompts and replies. The rowid is the event's place: the session's number shifted left
-- by 32 bits, plus seq. So all words of a session are one range.
CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'unicode61 remove_diacritics 2');

-- Words of a removed session leave the index at once, not with some later merge.
INSERT INTO words (words, rank) VALUES ('secure-delete', 1);
