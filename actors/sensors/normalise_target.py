"""What a call touched: a coarse target for people, a slice digest for the judge. Pure.

The same allow-list as the opencode plugin's (deploy/opencode-plugin/treewarden/target.js), shared vectors hold the two
together: known verbs, known kinds of second words, plain paths (P024, T50). Every other word becomes the number of its
first appearance in the conversation (``h:3``): equal words stay equal, nothing can be guessed from it, and two replays
print the same bytes.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

from actors.sensors.normalise_command import essential, simple_commands
from actors.sensors.normalise_digest import canonical, short

__all__ = ["Targets", "file_of", "is_command", "slice_of"]


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


MAX = 200
MAX_WORDS = 2000
MAX_COMMAND = 20_000  # of a command; the rest are here documents and data

PLAIN_PATH = re.compile(r"^(?:~|\.{1,2})?/?[\w.@+-]{1,64}(?:/[\w.@+-]{1,64})*/?$", re.A)
FILE_NAME = re.compile(r"\.[a-z]{1,5}[0-9]?$", re.I | re.A)
PLAIN_WORD = re.compile(r"^[a-z][a-z]*(?:[:_-][a-z]+)*$")
LONG_RANDOM = re.compile(r"(?=[^/]*\d)(?=[^/]*[a-zA-Z])[A-Za-z0-9_+=-]{20,}", re.A)  # looks like a token or key
NUMBER = re.compile(r"\d+", re.A)

# The second word of these is a subcommand, of those a file. Of any other verb it may be anything and is masked.
SUBCOMMANDS = _set(
    "git npm pnpm yarn bun deno cargo go make just docker podman kubectl helm terraform pip pip3 uv "
    "poetry tox nox ruff gh systemctl mvn gradle gradlew dotnet mix swift zig bundle rake rails composer "
    "apt apt-get brew hatch pdm conda nx turbo lerna biome prisma alembic django-admin flutter dart sbt "
    "cabal stack opam"
)
FILES = _set(
    "cat sed awk head tail less wc ls find tree stat file diff cmp sort uniq cp mv rm mkdir touch chmod "
    "ln du python python3 node ruby perl php bash sh zsh source tsx ts-node java pytest py.test jest "
    "vitest mocha mypy pyright flake8 pylint black isort eslint prettier tsc rspec phpunit ctest bats "
    "shellcheck cd test xxd hexdump strings jq yq tar unzip zip gcc clang g++ rustc javac"
)
OTHERS = _set(
    "echo printf export grep rg ag fd curl wget ssh scp rsync ps kill pkill sleep date env which type "
    "true false pwd whoami id uname df free top lsof netstat ss ping dig psql mysql sqlite3 redis-cli "
    "mongosh aws gcloud az openssl base64 tee xargs watch read set unset seq nproc locale nl tr cut paste "
    "comm column nc golangci-lint pre-commit unittest"
)
PATTERNS = frozenset({"grep", "glob", "list", "codesearch"})
COMMANDS = frozenset({"bash", "shell"})


def is_command(tool: str, args: dict[str, Any]) -> bool:
    """Tell whether a call runs a shell command."""
    return tool in COMMANDS and isinstance(args.get("command"), str)


def file_of(args: dict[str, Any]) -> str | None:
    """Return the path that a file tool works on."""
    named = (args.get(key) for key in ("filePath", "path", "file"))
    return next((value for value in named if isinstance(value, str) and value), None)


def slice_of(tool: str, args: dict[str, Any], root: str) -> str | None:
    """Return the digest of what was touched; None where the exact arguments are the better key (edits, other tools).

    Reads: path and range. Searches: place and pattern. Shell: the files and numbers named in the command.
    """
    file = file_of(args)
    if tool == "read" and file:
        first, count = (_json(args.get(key, default)) for key, default in (("offset", 0), ("limit", 2000)))
        return short(f"read\n{_resolved(root, file)}\n{first}\n{count}")
    if tool in PATTERNS:
        rest = canonical({key: value for key, value in args.items() if key != "path"})
        return short(f"{tool}\n{_resolved(root, file or '.')}\n{_json(rest)}")
    return _command_slice(args["command"][:MAX_COMMAND]) if is_command(tool, args) else None


class Targets:
    """Targets of one conversation: the masked words are numbered in it. ``home`` is shown as ``~``."""

    def __init__(self, root: str = "", home: str = "") -> None:
        self.root = root
        self._home = home
        self._words: dict[str, int] = {}

    def of(self, tool: str, args: dict[str, Any]) -> str:
        """Return the target of one call."""
        if is_command(tool, args):
            return self._command(args["command"][:MAX_COMMAND])
        kind = args.get("subagent_type")
        if tool == "task" and isinstance(kind, str):
            return _two("task", kind if PLAIN_WORD.match(kind) else "")
        file = file_of(args)
        if file is None:
            return tool[:MAX] if PLAIN_WORD.match(tool) else self._hidden(tool)
        return _two(tool, self._path(file)) if tool in PATTERNS else self._path(file)

    def _path(self, file: str) -> str:
        absolute = file if file.startswith("/") or not self.root else _resolved(self.root, file)
        shown = _inside(absolute, self.root) if self.root not in ("", "/") else None
        if shown is None:
            below_home = self._home and absolute.startswith(f"{self._home}/")
            shown = f"~{absolute[len(self._home) :]}" if below_home else absolute
        return "/".join(self._part(part) for part in shown[: 4 * MAX].split("/"))[:MAX]

    def _part(self, part: str) -> str:
        plain = part in ("", "~") or (PLAIN_PATH.match(part) and not LONG_RANDOM.search(part))
        return part if plain else self._hidden(part)

    def _command(self, command: str) -> str:
        found = [words for one in simple_commands(command) if (words := essential(one.words))]
        if not found:
            return "shell"
        words = next((one for one in found if one[0] != "cd"), found[0])
        verb, second = posixpath.basename(words[0]), words[1] if len(words) > 1 else None
        if verb in SUBCOMMANDS:
            plain = second is not None and len(second) <= 24 and PLAIN_WORD.match(second)
            return _two(verb, second if plain and second else self._masked(second))
        if verb in FILES:
            return _two(verb, self._file_word(words[1:]))
        if verb in OTHERS:
            return _two(verb, self._masked(second))
        return self._path(words[0]) if _plain_path(words[0]) else self._hidden(words[0])

    def _file_word(self, rest: Sequence[str]) -> str:
        if not rest:
            return ""
        named = rest[0] if not rest[0].startswith("-") else next((word for word in rest if _plain_path(word)), None)
        if named is None:
            return ""
        return self._path(named) if _plain_path(named) else self._masked(named)

    def _masked(self, word: str | None) -> str:
        """Flags are left out: some hold the secret itself (-pSECRET) or make the next word one."""
        return "" if word is None or word.startswith("-") else self._hidden(word)

    def _hidden(self, word: str) -> str:
        if word not in self._words and len(self._words) >= MAX_WORDS:
            return "h:0"
        return f"h:{self._words.setdefault(word, len(self._words) + 1)}"


def _json(value: Any) -> str:
    return json.dumps(canonical(value), separators=(",", ":"), ensure_ascii=False)


def _resolved(root: str, file: str) -> str:
    path = posixpath.normpath(posixpath.join(root or "/", file))
    return path[1:] if path.startswith("//") else path  # POSIX keeps two leading slashes, node does not


def _inside(absolute: str, root: str) -> str | None:
    if absolute != root and not absolute.startswith(f"{root}/"):
        return None
    relative = posixpath.normpath(str(PurePosixPath(absolute).relative_to(root)))
    return relative or "."


def _two(verb: str, second: str) -> str:
    return (f"{verb} {second}" if second else verb)[:MAX]


def _plain_path(word: str) -> bool:
    plain = PLAIN_PATH.match(word) and not LONG_RANDOM.search(word)
    return bool(plain) and ("/" in word or FILE_NAME.search(word) is not None)


def _command_slice(command: str) -> str | None:
    named = [word for one in simple_commands(command) for word in essential(one.words)[1:]]
    files = {word for word in named if not word.startswith("-") and ("/" in word or FILE_NAME.search(word))}
    if not files:
        return None
    numbers = [number for word in named if word not in files for number in NUMBER.findall(word)]
    return short("shell\n" + "\n".join(sorted(files)) + "\n" + ",".join(numbers))
