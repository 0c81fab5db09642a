"""Shell commands, read well enough to say what ran and whether the exit status is that command's own. Pure.

The same reading as the opencode plugin's (deploy/opencode-plugin/treewarden/command.js); shared vectors hold the two
together. Not a shell: an unusual construct makes the reading coarser, never wrong in the landed direction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

__all__ = ["Simple", "essential", "may_write", "owns_exit", "shell_edit", "simple_commands"]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


WRAPPERS = frozenset({"sudo", "time", "nohup", "command", "exec", "nice", "stdbuf", "env"})
RUNNERS = (
    ("uv", "run"),
    ("poetry", "run"),
    ("pipenv", "run"),
    ("pdm", "run"),
    ("hatch", "run"),
    ("bundle", "exec"),
    ("npx",),
    ("bunx",),
    ("pnpx",),
    ("pnpm", "exec"),
    ("pnpm", "dlx"),
    ("yarn", "exec"),
)
PYTHON = re.compile(r"^(?:.*/)?python[\d.]*$", re.A)
HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1(?=[^\n]*\n)[\s\S]*?\n[ \t]*\2(?!\w)", re.A)  # its body is data
HEREDOC_LINE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*\n)(?:[\s\S]*?\n)?[ \t]*\2(?!\w)", re.A)
TOKEN = re.compile(
    r"(?:(?<![\s\S])|(?<=[\s;&|]))#[^\n]*"
    r"|((?:'[^']*'|\"(?:\\[\s\S]|[^\"\\])*\"|\\[\s\S]|\d{0,3}>{1,2}&\d|&>{1,2}|[^\s;&|'\"\\\n])+)"
    r"|(&&|\|\||\|&|[;&|\n])|[^\S\n]+",
    re.A,
)
QUOTED = re.compile(r"'([^']*)'|\"((?:\\[\s\S]|[^\"\\])*)\"|\\([\s\S])")
ESCAPED = re.compile(r"\\([\s\S])")
ASSIGNMENT = re.compile(r"^[A-Za-z_]\w*=", re.A)
REDIRECTION = re.compile(r"^(?:\d*|&)(?:>{1,2}|<{1,3})(?:&\d)?", re.A)
TO_DESCRIPTOR = re.compile(r"&\d$", re.A)
WRITES_TO = re.compile(r"^(?:1|&)?>{1,2}(?!&)(.*)$", re.S)
WRITING = _set("tee mv cp rm patch touch truncate install ln mkdir rsync unzip tar")
GIT_WRITING = _set("apply checkout restore revert reset stash merge rebase cherry-pick am pull switch mv rm")
IN_PLACE = re.compile(r"^-\w*i", re.A)
FIXING = frozenset({"--fix", "--write", "--in-place"})
SCRATCH = ("/tmp/", "/dev/", "/var/tmp/")  # noqa: S108 - names to look for, nothing is written there


class Simple(NamedTuple):
    """One simple command with the operators around it ("" at the ends) and the directory that a ``cd`` chose."""

    words: tuple[str, ...]
    before: str
    after: str
    cwd: str


@lru_cache(maxsize=256)  # every rule reads the same command
def simple_commands(text: str) -> tuple[Simple, ...]:
    """Split at the operators outside of quotes, in order."""
    found: list[Simple] = []
    words: list[str] = []
    before = cwd = ""
    for word, operator in (*_tokens(HEREDOC.sub("", text)), (None, "")):
        if word is not None:
            words.append(word)
            continue
        if words:
            found.append(Simple(tuple(words), before, operator, cwd))
            if words[0] == "cd" and len(words) > 1 and words[1]:
                cwd = _joined(cwd, words[1])
        words, before = [], operator
    return tuple(found)


def essential(words: Sequence[str]) -> list[str]:
    """Return the words that matter: no assignments, wrappers, runners, redirections; ``python -m x`` is ``x``."""
    rest = _without_redirections(words)
    while True:
        shorter = _without_prefix(rest)
        if len(shorter) == len(rest):
            return rest
        rest = shorter


def owns_exit(commands: Sequence[Simple], index: int) -> bool:
    """Tell whether the exit status of the whole line speaks for this command: nothing after it may hide a failure."""
    rest = commands[index:]
    return all(one.after == "" or (one.after == "&&" and at < len(rest) - 1) for at, one in enumerate(rest))


def may_write(text: str) -> bool:
    """Tell whether a line may have changed files; only a gate of the red-to-green rule (T42), so generous."""
    return any(_may_write(one.words) for one in simple_commands(text))


def shell_edit(text: str) -> bool:
    """Tell whether a line surely writes a file that is kept: the only edits of agents that have a shell and no more."""
    plain = HEREDOC_LINE.sub(r"\3", text)  # what stands behind the operator may name the file: cat <<EOF > f
    return any(_edits(one.words) for one in simple_commands(plain))


def _joined(cwd: str, following: str) -> str:
    path = following if following.startswith("/") or not cwd else f"{cwd}/{following}"
    return path.rstrip("/") or "/"


def _tokens(text: str) -> Iterator[tuple[str | None, str]]:
    at = 0
    while at < len(text):
        match = TOKEN.search(text, at)
        if match is None:
            return
        at = match.end() if match.end() > match.start() else match.end() + 1
        if match[2]:
            yield None, {"\n": ";", "|&": "|"}.get(match[2], match[2])
        elif match[1]:
            yield _unquoted(match[1]), ""


def _unquoted(word: str) -> str:
    def plain(match: re.Match[str]) -> str:
        single, double, escaped = match.groups()
        if single is not None:
            return str(single)
        return ESCAPED.sub(r"\1", double) if double is not None else str(escaped)

    return QUOTED.sub(plain, word)


def _without_prefix(words: list[str]) -> list[str]:
    if not words:
        return words
    first = words[0]
    if ASSIGNMENT.match(first) or first in WRAPPERS or first in ("(", "{", "!"):
        return words[1:]
    if first == "timeout":
        plain = next((at for at, word in enumerate(words) if at > 0 and not word.startswith("-")), 0)
        return words[plain + 1 :]
    if PYTHON.match(first) and words[1:2] == ["-m"]:
        return words[2:]
    runner = next((one for one in RUNNERS if tuple(words[: len(one)]) == one), ())
    return words[len(runner) :]


def _without_redirections(words: Sequence[str]) -> list[str]:
    kept: list[str] = []
    skip = False
    for word in words:
        if skip:
            skip = False
            continue
        match = REDIRECTION.match(word)
        if match is None:
            kept.append(word)
        else:  # a bare operator: the file name is the next word
            skip = match[0] == word and not TO_DESCRIPTOR.search(word)
    return kept


def _written(words: Sequence[str]) -> Iterator[str]:
    for at, word in enumerate(words):
        match = WRITES_TO.match(word)
        if match:
            yield match[1] or (words[at + 1] if at + 1 < len(words) else "")


def _may_write(words: Sequence[str]) -> bool:
    if any(name != "/dev/null" for name in _written(words)):
        return True
    verb, *rest = essential(words) or [""]
    if verb in ("sed", "perl"):
        return any(IN_PLACE.match(word) for word in rest)
    if verb == "git":
        return next((word for word in rest if not word.startswith("-")), "") in GIT_WRITING
    return verb in WRITING or any(word in FIXING for word in rest)


def _edits(words: Sequence[str]) -> bool:
    if any(name and not name.startswith(SCRATCH) for name in _written(words)):
        return True
    verb, *rest = essential(words) or [""]
    if verb in ("sed", "perl"):
        return any(IN_PLACE.match(word) for word in rest)
    if verb == "git":
        return rest[:1] == ["apply"] and "--check" not in rest
    return verb in ("patch", "apply_patch") or (
        verb == "tee" and any(not word.startswith(("-", *SCRATCH)) for word in rest)
    )
