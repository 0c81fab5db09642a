"""How a call ended: a digest of its normalised output, a class token for failures. Pure; reads content, keeps none.

The same rules as the opencode plugin's (deploy/opencode-plugin/treewarden/outcome.js); shared vectors hold the two
together. Counts ("3 failed") stay: they are the outcome.
"""

from __future__ import annotations

import re

from actors.messages import ErrorClass
from actors.sensors.normalise_digest import short

__all__ = ["error_class", "masked", "result_digest", "shell_error"]

HEAD = 96 * 1024  # of longer outputs the first and the last part and the length stand for the whole
TAIL = 4000

_DAYS = "Mon|Tue|Wed|Thu|Fri|Sat|Sun"
_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
MASKS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern, re.A | flags), replacement)
    for pattern, replacement, flags in (
        (r"\x1b\[[0-9;?]*[ -/]*[@-~]", "", 0),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?", "<time>", 0),
        (rf"\b(?:{_DAYS})[a-z]*,? \d{{0,2}} ?(?:{_MONTHS})[a-z]*[ \d]*", "<time>", 0),
        (r"\b\d{1,2}:\d\d:\d\d(?:[.,]\d+)?\b", "<time>", 0),
        (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<id>", re.I),
        (r"\b(?:ses|msg|prt|call|toolu|req)_[A-Za-z0-9]+", "<id>", 0),
        (r"\b0x[0-9a-f]+\b", "<id>", re.I),
        (r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b", "<id>", re.I),
        (r"(?:/private)?/(?:tmp|var/tmp|var/folders|dev/shm)/[^\s:'\"),]+", "<temp>", 0),
        (
            "\\b\\d+(?:\\.\\d+)?\\s?(?:ns|us|\u00b5s|ms|s|sec|secs|seconds?|minutes?|mins?|m|h|hours?)\\b",
            "<duration>",
            0,
        ),
        (r"\b(pid|PID)[ =:]*\d+", r"\1 <id>", 0),
        (r"\bport \d+|(?:(?<=localhost:)|(?<=127\.0\.0\.1:))\d+", "<port>", 0),
        (r"\b\d{9,}\b", "<number>", 0),
        (r"(?<=[\w)\]]):\d+(?::\d+)?\b", ":<line>", 0),
        (r"\b([Ll]ines?) \d+(?:-\d+)?", r"\1 <line>", 0),
        (r"^\s{0,100}\d+[:|]", "<line>|", re.M),
    )
)
TRAILING = re.compile(r"(?<![ \t])[ \t]+$", re.M)  # begins at the run's start only: linear in its length

_CLASSES: tuple[tuple[ErrorClass, re.Pattern[str]], ...] = tuple(
    (name, re.compile(pattern, re.I | re.A))
    for name, pattern in (
        (ErrorClass.UNKNOWN_TOOL, r"unavailable tool|unknown tool|no such tool|tool .{1,60} not found"),
        (
            ErrorClass.DENIED,
            r"rejected permission|permission (?:was )?(?:denied|rejected)|denied by|user has specified a rule"
            r"|rule which prevents|not allowed to|EACCES|operation not permitted|EPERM|read-only file system",
        ),
        (
            ErrorClass.EDIT_MISMATCH,
            r"oldString|old_string|multiple matches|no changes to apply|identical|hunk .{0,20}failed"
            r"|failed to find (?:expected lines|context)|must read the file|has been modified since"
            r"|before overwriting|patch does not apply",
        ),
        (ErrorClass.TIMEOUT, r"timed? ?out|exceeding timeout|ETIMEDOUT|deadline exceeded"),
        (ErrorClass.AUTH, r"unauthori[sz]ed|authentication|invalid api key|bad credentials|\b401\b"),
        (
            ErrorClass.INFRA,
            r"ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|ENOSPC|EMFILE|ENOMEM|no space left|out of memory"
            r"|cannot allocate|could not resolve host|connection (?:refused|reset)|network is unreachable"
            r"|service unavailable|\b50[234]\b",
        ),
        (
            ErrorClass.NOTFOUND,
            r"ENOENT|no such file|file not found|not found|does not exist|cannot find|no module named",
        ),
        (
            ErrorClass.PARSE,
            r"invalid (?:arguments|input|json|parameters)|arguments provided|schema|SyntaxError|unexpected token"
            r"|JSON|parse error|validation",
        ),
        (ErrorClass.PROVIDER, r"rate limit|overloaded|too many requests|\b429\b"),
    )
)
# What other clients' tools say; opencode's own messages are above, in the plugin's words.
_OTHERS: tuple[tuple[ErrorClass, re.Pattern[str]], ...] = (
    (
        ErrorClass.EDIT_MISMATCH,
        re.compile(
            r"string to replace not found|could not find (?:the string|an exact match)|no replacement was performed"
            r"|0 occurrences|matches of the string|has not been read yet|failed to apply|anchored edits",
            re.I,
        ),
    ),
    (
        ErrorClass.DENIED,
        re.compile(
            r"doesn't want to (?:proceed|take this action)|rejected by user|permission to use .{1,60} has been", re.I
        ),
    ),
    (ErrorClass.UNKNOWN_TOOL, re.compile(r"unsupported (?:custom tool )?call", re.I)),
)
_FROM_OUTPUT = frozenset({ErrorClass.INFRA, ErrorClass.AUTH})  # surely not the failing program's own doing
_BY_EXIT = {124: ErrorClass.TIMEOUT, 126: ErrorClass.DENIED, 127: ErrorClass.NOTFOUND, 137: ErrorClass.INFRA}
_LATE = re.compile(r"exceeding timeout|timed out", re.I)


def masked(text: str) -> str:
    """Return the text without what changes from run to run without meaning anything."""
    part = text if len(text) <= 2 * HEAD else f"{text[:HEAD]}\n...{len(text)}...\n{text[-HEAD:]}"
    for pattern, replacement in MASKS:
        part = pattern.sub(replacement, part)
    return TRAILING.sub("", part).strip()


def result_digest(text: str, exit_: int | None) -> str:
    """Digest the outcome: exit status and masked output."""
    return short(f"{'' if exit_ is None else exit_}\n{masked(text)}")


def error_class(text: str) -> ErrorClass | None:
    """Return the class of a tool's own error message."""
    return next((name for name, pattern in (*_OTHERS, *_CLASSES) if pattern.search(text[: 2 * HEAD])), None)


def shell_error(exit_: int | None, text: str) -> ErrorClass | None:
    """Return the class of a shell command's failure; by the output only what is not the program's own doing."""
    tail = text[-TAIL:]
    if exit_ is None:
        return ErrorClass.TIMEOUT if _LATE.search(tail) else None
    if exit_ == 0:
        return None
    found = (name for name, pattern in _CLASSES if name in _FROM_OUTPUT and pattern.search(tail))
    return _BY_EXIT.get(exit_) or next(found, None)
