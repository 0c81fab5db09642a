-- The first schema. JSON columns hold text; times are wall clock, epoch seconds (T19), unless a comment says otherwise.

-- One row per conversation tree. rev rises with every save and guards it; seq is the newest event's number;
-- the snapshot is the state after event snapshot_seq; summary is the row that GET /v1/trees shows.
CREATE TABLE trees (
    id            TEXT PRIMARY KEY NOT NULL,
    rev           INTEGER NOT NULL,
    seq           INTEGER NOT NULL,
    verdict       TEXT NOT NULL,
    reason        TEXT NOT NULL,
    status        TEXT NOT NULL,
    mode          TEXT,
    stage         TEXT NOT NULL,
    summary       TEXT NOT NULL,
    snapshot_seq  INTEGER NOT NULL,
    snapshot      TEXT,
    merged_into   TEXT,
    created_at    REAL NOT NULL,
    last_event_at REAL NOT NULL,
    touched_at    REAL NOT NULL,
    next_wakeup   REAL
) STRICT;
CREATE INDEX trees_by_wakeup ON trees (next_wakeup) WHERE next_wakeup IS NOT NULL;
CREATE INDEX trees_by_touch ON trees (touched_at);
CREATE INDEX trees_by_verdict ON trees (verdict, id);

CREATE TABLE conversations (
    id         TEXT PRIMARY KEY NOT NULL,
    tree       TEXT NOT NULL,
    parent     TEXT,
    agent      TEXT,
    created_at REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX conversations_by_tree ON conversations (tree);
CREATE INDEX conversations_by_age ON conversations (created_at);

-- t is the sensor's clock, received_at ours. No WITHOUT ROWID: bodies are long, rows would be few to a page.
CREATE TABLE events (
    tree         TEXT NOT NULL,
    seq          INTEGER NOT NULL,
    conversation TEXT NOT NULL,
    event_id     TEXT,
    t            REAL NOT NULL,
    received_at  REAL NOT NULL,
    body         TEXT NOT NULL,
    PRIMARY KEY (tree, seq)
) STRICT;
CREATE UNIQUE INDEX events_by_id ON events (conversation, event_id) WHERE event_id IS NOT NULL;

CREATE TABLE transitions (
    tree         TEXT NOT NULL,
    n            INTEGER NOT NULL,
    seq          INTEGER NOT NULL,
    conversation TEXT NOT NULL,
    t            REAL NOT NULL,
    before       TEXT NOT NULL,
    after        TEXT NOT NULL,
    reason       TEXT NOT NULL,
    tree_verdict TEXT NOT NULL,
    evidence     TEXT NOT NULL,
    PRIMARY KEY (tree, n)
) STRICT;

CREATE TABLE quarantine (
    id           INTEGER PRIMARY KEY,
    tree         TEXT NOT NULL,
    conversation TEXT NOT NULL,
    event_id     TEXT,
    body         TEXT NOT NULL,
    error        TEXT NOT NULL,
    at           REAL NOT NULL
) STRICT;
CREATE INDEX quarantine_by_id ON quarantine (conversation, event_id);
CREATE INDEX quarantine_by_tree ON quarantine (tree);

-- AUTOINCREMENT: an id is the effect_id of whoever performs it, so it must never be used twice.
CREATE TABLE outbox (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    tree       TEXT NOT NULL,
    kind       TEXT NOT NULL,
    target     TEXT NOT NULL,
    one_shot   INTEGER NOT NULL CHECK (one_shot IN (0, 1)),
    state      TEXT NOT NULL CHECK (state IN ('pending', 'claimed', 'done')),
    body       TEXT NOT NULL,
    created_at REAL NOT NULL
) STRICT;
CREATE INDEX outbox_open ON outbox (target, id) WHERE state <> 'done';
CREATE INDEX outbox_by_tree ON outbox (tree);

CREATE TABLE alerts (
    key         TEXT PRIMARY KEY NOT NULL,
    severity    TEXT NOT NULL,
    state       TEXT NOT NULL,
    title       TEXT NOT NULL,
    summary     TEXT NOT NULL,
    details     TEXT NOT NULL,
    source      TEXT NOT NULL,
    opened_at   REAL NOT NULL,
    changed_at  REAL NOT NULL,
    last_effect INTEGER NOT NULL
) STRICT;

CREATE TABLE alert_log (
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    key       TEXT NOT NULL,
    severity  TEXT NOT NULL,
    state     TEXT NOT NULL,
    title     TEXT NOT NULL,
    summary   TEXT NOT NULL,
    source    TEXT NOT NULL,
    at        REAL NOT NULL,
    effect_id INTEGER UNIQUE
) STRICT;
CREATE INDEX alert_log_by_key ON alert_log (key, id);
CREATE INDEX alert_log_by_age ON alert_log (at);

CREATE TABLE deliveries (
    id           INTEGER PRIMARY KEY,
    alert_log_id INTEGER NOT NULL,
    key          TEXT NOT NULL,
    channel      TEXT NOT NULL,
    action       TEXT NOT NULL,
    state        TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'failed', 'suppressed')),
    attempts     INTEGER NOT NULL,
    next_at      REAL NOT NULL,
    error        TEXT,
    at           REAL NOT NULL
) STRICT;
CREATE INDEX deliveries_open ON deliveries (next_at) WHERE state = 'pending';
CREATE INDEX deliveries_by_log ON deliveries (alert_log_id);

CREATE TABLE settings_versions (
    version   INTEGER PRIMARY KEY,
    overrides TEXT NOT NULL,
    by_uid    INTEGER NOT NULL,
    note      TEXT NOT NULL,
    at        REAL NOT NULL
) STRICT;

CREATE TABLE audit (
    id     INTEGER PRIMARY KEY,
    at     REAL NOT NULL,
    uid    INTEGER NOT NULL,
    action TEXT NOT NULL,
    detail TEXT NOT NULL
) STRICT;

CREATE TABLE sensors (
    source  TEXT PRIMARY KEY NOT NULL,
    version TEXT NOT NULL,
    seen_at REAL NOT NULL
) STRICT;

-- One row that proves, before the keeper says ok, that there is room to write (database.prove_writable).
CREATE TABLE proof (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    at   REAL NOT NULL,
    room BLOB NOT NULL
) STRICT;
INSERT INTO proof VALUES (1, 0, x'');
