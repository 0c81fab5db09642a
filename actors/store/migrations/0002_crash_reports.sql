-- What went wrong with a process: one row a report of root's; life and n together name it, so that twice is once.
CREATE TABLE crash_reports (
    id INTEGER PRIMARY KEY,
    life REAL NOT NULL,       -- when that root began, epoch seconds
    n INTEGER NOT NULL,       -- number of the report in that life
    at REAL NOT NULL,
    supervisor TEXT NOT NULL,
    context TEXT NOT NULL,
    reason TEXT NOT NULL,
    offender TEXT NOT NULL,
    pid INTEGER,
    log TEXT NOT NULL,        -- JSON list: the last lines the process said
    UNIQUE (life, n)
) STRICT;
CREATE INDEX crash_reports_by_time ON crash_reports (at);
