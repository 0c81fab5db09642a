-- What operators and services say of alerts. Times are wall clock, epoch seconds.

-- Mutes what matches all that is given until ``until``; ending one early moves ``until``.
CREATE TABLE silences (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    key      TEXT,
    source   TEXT,
    severity TEXT NOT NULL,
    until    REAL NOT NULL,
    by_whom  TEXT NOT NULL,
    note     TEXT NOT NULL,
    at       REAL NOT NULL
) STRICT;
CREATE INDEX silences_by_end ON silences (until);

-- Holds for the opening of the alert that it names; severity is the worst that was acknowledged.
CREATE TABLE acknowledgements (
    key       TEXT PRIMARY KEY NOT NULL,
    severity  TEXT NOT NULL,
    opened_at REAL NOT NULL,
    by_whom   TEXT NOT NULL,
    at        REAL NOT NULL
) STRICT;

-- Was the alert right? Kept with its evidence as it was, for calibration.
CREATE TABLE feedback (
    id           INTEGER PRIMARY KEY,
    alert_log_id INTEGER NOT NULL,
    key          TEXT NOT NULL,
    says         TEXT NOT NULL CHECK (says IN ('right', 'wrong')),
    evidence     TEXT NOT NULL,
    note         TEXT NOT NULL,
    by_whom      TEXT NOT NULL,
    via          TEXT NOT NULL,
    at           REAL NOT NULL
) STRICT;

-- What a service calls the message that shows an alert, so that a later process can replace or close it.
CREATE TABLE delivery_refs (
    channel TEXT NOT NULL,
    key     TEXT NOT NULL,
    ref     TEXT NOT NULL,
    at      REAL NOT NULL,
    PRIMARY KEY (channel, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX deliveries_by_key ON deliveries (key, channel, id);
CREATE INDEX deliveries_by_channel ON deliveries (channel, id);
