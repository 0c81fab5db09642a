"""Red to green and commits: what of a shell line counts as landed (P027, P028, T42). Pure.

The same rules as the opencode plugin's (deploy/opencode-plugin/treewarden/testrun.js and landed.js); shared vectors
hold the two together. A test or lint command that passes has landed something only if a run of the same or a narrower
selection was red before, and something was edited in between; once per selection until it is red again.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence
from typing import NamedTuple

from actors.sensors.normalise_command import essential, owns_exit, simple_commands

__all__ = ["RedRuns", "Selection", "commit_made", "covers", "selection"]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


SELECTIONS = 64
COMMITTED = re.compile(r"^\[[^\]\n]+ [0-9a-f]{7,40}\]", re.M)

SCRIPTS = re.compile(
    r"^(?:test|tests|lint|check|typecheck|type-check|tsc|unit|e2e|integration|ci|verify|vet|clippy|format-check)"
    r"(?:[:_-][\w:-]+)?$",
    re.A,
)
_ALONE = (
    "pytest py.test unittest tox nox mypy pyright flake8 pylint jest vitest mocha ava eslint tsc rspec phpunit ctest "
    "bats shellcheck golangci-lint pre-commit nosetests stylelint biome standard xo"
)
_RUNNERS = "npm pnpm yarn bun make just rake mix gradle gradlew mvn turbo nx composer hatch deno"
_SUBCOMMANDS = {
    "ruff": "check format",
    "go": "test vet",
    "cargo": "test check clippy nextest",
    "dotnet": "test",
    "swift": "test",
    "zig": "test",
    "sbt": "test",
    "node": "--test",
}
# verb -> what its subcommand must be; None: the verb alone tests, lints or type-checks
VERBS: dict[str, re.Pattern[str] | None] = {
    **dict.fromkeys(_ALONE.split()),
    **dict.fromkeys(_RUNNERS.split(), SCRIPTS),
    **{verb: re.compile(f"^(?:{'|'.join(names.split())})$") for verb, names in _SUBCOMMANDS.items()},
}
SKIPPED = frozenset({"run", "run-script"})
NOT_A_RUN = _set("--version --help -h -V --collect-only --co --list --listTests --fixtures --dry-run -n=0 --setup-plan")
# Flags that choose what runs; those with a value take the next word unless it comes after "=".
FILTERS = _set(
    "-k -m -t --grep -g --run -run --filter --testNamePattern --testPathPattern --ignore --deselect "
    "--tests -Dtest --select --lf --last-failed --ff --sw --stepwise --only --changed --onlyChanged -o "
    "--bail-selection --testPathPatterns --exclude --skip --package -p"
)
WITHOUT_VALUE = _set("--lf --last-failed --ff --sw --stepwise --changed --onlyChanged -o")
VALUES = _set(
    "-n --maxfail --tb -c --config --reporter -j --jobs --timeout --cov --durations -W --workers --seed "
    "--rootdir --format --output-format --log-level -C --prefix --color --project -r"
)
FAILED_TEXT = re.compile(
    r"\b[1-9]\d* (?:failed|failing|failures?|errors?|problems?)\b|^(?:FAILED|FAIL|ERROR)\b|\bAssertionError\b"
    r"|error TS\d+|npm ERR!|npm error|test result: FAILED|\bnot ok \d",
    re.M | re.A,
)
PASSED_TEXT = re.compile(
    r"\b[1-9]\d* (?:passed|passing)\b|test result: ok|All checks passed|Success: no issues|^ok\s+\S+|^OK\b|# fail 0\b"
    r"|Tests:\s+\d+ passed|0 problems",
    re.M | re.A,
)


class Selection(NamedTuple):
    """What one test command runs."""

    tool: str
    paths: tuple[str, ...]
    filters: tuple[str, ...]


def selection(words: Sequence[str], cwd: str = "") -> Selection | None:
    """Return what a simple command tests; None when it tests nothing."""
    verb, *rest = essential(words) or [""]
    verb = verb.rpartition("/")[2]
    if verb not in VERBS or any(word in NOT_A_RUN for word in rest):
        return None
    tool, rest = _tool(VERBS[verb], verb, rest)
    if tool is None:
        return None
    paths, filters = _arranged(rest)
    return Selection(f"{cwd}\n{tool}" if cwd else tool, paths, filters)


def covers(green: Selection, red: Selection) -> bool:
    """Tell whether a run of ``green`` includes everything that ``red`` selected."""
    if green.tool != red.tool:
        return False
    narrow = bool(red.paths) and all(any(_within(path, wide) for wide in green.paths) for path in red.paths)
    return (not green.paths or narrow) and all(one in red.filters for one in green.filters)


def commit_made(command: str, exit_: int | None, text: str) -> bool:
    """Tell whether a commit was made; where the exit status is not git's own, its "[branch abc1234]" line is proof."""
    commands = simple_commands(command)
    for index, one in enumerate(commands):
        if _is_commit(essential(one.words)) and (
            exit_ == 0 if owns_exit(commands, index) else COMMITTED.search(text) is not None
        ):
            return True
    return False


class RedRuns:
    """The red selections of one conversation. ``edits`` is a counter that grows with everything edited."""

    def __init__(self) -> None:
        self._red: dict[Selection, int] = {}

    def observe(self, command: str, exit_: int | None, text: str, edits: int) -> bool:
        """Note a command line; True when it turned a red selection green."""
        landed = False
        commands = simple_commands(command)
        for index, one in enumerate(commands):
            chosen = selection(one.words, one.cwd)
            colour = _outcome(owns_exit(commands, index), exit_, text) if chosen else None
            if chosen and colour == "red":
                self._note(chosen, edits)
            if chosen and colour == "green" and self._settle(chosen, edits):
                landed = True
        return landed

    def _note(self, chosen: Selection, edits: int) -> None:
        self._red.pop(chosen, None)
        self._red[chosen] = edits
        if len(self._red) > SELECTIONS:
            del self._red[next(iter(self._red))]

    def _settle(self, green: Selection, edits: int) -> bool:
        """End every red run that this one covers; those without an edit in between end as flaky, not as landed."""
        ended = [self._red.pop(red) for red in list(self._red) if covers(green, red)]
        return any(before < edits for before in ended)


def _tool(rule: re.Pattern[str] | None, verb: str, rest: list[str]) -> tuple[str | None, list[str]]:
    if rule is None:
        return verb, rest
    at = 0
    if rule is SCRIPTS:
        while at < len(rest) and rest[at] in SKIPPED:
            at += 1
    if at < len(rest) and rule.match(rest[at]):
        return f"{verb} {rest[at]}", rest[at + 1 :]
    return None, rest


def _arranged(rest: list[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    paths, filters = [], []
    at = 0
    while at < len(rest):
        flag, equals, value = rest[at].partition("=") if rest[at].startswith("-") else (rest[at], "", "")
        if not flag.startswith("-"):
            paths.append(re.sub(r"/(?:\.\.\.)?$", "", flag.removeprefix("./")) or ".")
        elif flag in WITHOUT_VALUE:
            filters.append(flag)
        elif flag in FILTERS or (flag in VALUES and not equals):
            if not equals:
                at += 1
                value = rest[at] if at < len(rest) else ""
            if flag in FILTERS:
                filters.append(f"{flag}={value}")
        at += 1
    return tuple(sorted(path for path in paths if path not in (".", "..."))), tuple(sorted(filters))


def _within(inner: str, outer: str) -> bool:
    return inner == outer or inner.startswith((f"{outer}/", f"{outer}::"))


def _outcome(owned: bool, exit_: int | None, text: str) -> str | None:
    """The exit status speaks if it is the test's own; the text is the fallback (P112)."""
    if owned:
        return None if exit_ is None else "green" if exit_ == 0 else "red"
    if FAILED_TEXT.search(text):
        return "red"
    return "green" if PASSED_TEXT.search(text) else None


def _is_commit(words: Sequence[str]) -> bool:
    if not words or posixpath.basename(words[0]) != "git":
        return False
    at = 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in ("-C", "-c") else 1
    rest = words[at:]
    return rest[:1] == ["commit"] and "--dry-run" not in rest and "--help" not in rest
