"""From what a client wrote down of its calls and messages to progress events, by the plugin's rules. Pure.

Readers put each call into opencode's vocabulary (tool ``bash`` with ``command``, ``read`` / ``edit`` / ``write`` with
``filePath``) and add it to a ``Session``; the session knows what has to be remembered from call to call: red test
runs, states of files, numbers of masked words. No content gets into an event (P023, P024).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from actors.messages import ErrorClass, Kind, ProgressEvent, Tokens
from actors.sensors.identity import slug
from actors.sensors.normalise_command import may_write, shell_edit
from actors.sensors.normalise_digest import canonical, fingerprint, said_digests, short
from actors.sensors.normalise_landed import COMMITTED, RedRuns, commit_made
from actors.sensors.normalise_outcome import error_class, result_digest, shell_error
from actors.sensors.normalise_target import MAX_COMMAND, Targets, file_of, is_command, slice_of
from actors.sensors.prices import price_of

__all__ = ["EDITS", "UNFIT", "Call", "Session", "Usage", "clock"]

EDITS = frozenset({"edit", "multiedit", "patch", "apply_patch", "write"})
LATEST = 4_102_444_800.0  # a time beyond it is no epoch second (2100-01-01)
MAX_ID = 200
UNFIT = "invalid"  # opencode's stand-in for a tool that is not there, or for arguments that do not fit
MAX_FILES = 2000
SOURCE = "replay"

# Prompts that hooks, clients and routers send in the user's name; the first is ours. The plugin has the same list.
CONTINUATIONS = (
    "[treewarden]",
    "[SYSTEM DIRECTIVE",
    "[SYSTEM REMINDER",
    "<system-reminder>",
    "Continue if you have next steps",
    "<environment_context>",
    "<session_context>",
    "<user_instructions>",
    "<local-command-",
    "<task-notification>",
    "# AGENTS.md instructions",
    "This session is being continued from a previous conversation",
)


@dataclass(frozen=True, slots=True)
class Call:
    """One finished tool call. ``exit``: a shell's status, None for unknown; of other tools 0 or 1.

    ``failure`` is the text of a tool that failed itself; ``changed`` and ``state`` say what is known of an edit:
    whether it changed anything, and the digest of the file after it. ``shell_lands``: edits through
    the shell count.
    """

    tool: str
    args: dict[str, Any]
    output: str = ""
    exit: int | None = 0
    failure: str | None = None
    aborted: bool = False
    changed: bool | None = None
    state: str | None = None
    call_id: str | None = None
    round: str | None = None
    t: float | None = None
    shell_lands: bool = False


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of one model request; ``prompt`` includes ``cached`` and ``written``; without ``usd`` it is priced."""

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    written: int = 0
    usd: float | None = None
    model: str | None = None
    provider: str | None = None


@dataclass(slots=True)
class Session:
    """One conversation that is read; ``events`` grows in the order of the calls."""

    id: str
    parent: str | None = None
    agent: str | None = None
    root: str = ""
    home: str = ""
    events: list[ProgressEvent] = field(default_factory=list)
    priced: bool = False  # whether dollars are estimates from the list
    _targets: Targets = field(init=False)
    _red: RedRuns = field(default_factory=RedRuns)
    _states: dict[str, str] = field(default_factory=dict)
    _edits: int = 0

    def __post_init__(self) -> None:
        self.id = _identifier(self.id) or "unknown"
        self.parent = _identifier(self.parent)
        self.parent = None if self.parent == self.id else self.parent
        self._targets = Targets(self.root, self.home)

    def rooted(self, root: str) -> None:
        """Learn the project's directory; targets are shown relative to it."""
        self.root = self.root or root
        self._targets.root = self.root

    def call(self, call: Call) -> None:
        """Add a tool call."""
        tool = call.tool[:MAX_ID]
        args = call.args
        self._add(
            call.t,
            tool=tool,
            call_id=_identifier(call.call_id),
            round=_identifier(call.round),
            fingerprint=fingerprint(tool, args),
            slice=slice_of(tool, args, self.root),
            target=self._targets.of(tool, args),
            **self._outcome(tool, args, call),
        )

    def turn(self, t: float | None, round_: str | None, usage: Usage, error: ErrorClass | None = None) -> None:
        """Add one model request with its usage."""
        usd, told = usage.usd, usage.prompt + usage.completion > 0
        if usd is None and told:
            usd = price_of(usage.model, usage)
            self.priced = self.priced or usd is not None
        self._add(
            t,
            kind=Kind.TURN,
            round=_identifier(round_),
            model=_name(usage.model),
            provider=_name(usage.provider),
            tokens=Tokens(prompt=usage.prompt, cached=usage.cached, completion=usage.completion) if told else None,
            context_tokens=usage.prompt if told else None,
            cost_usd=usd,
            error=error,
        )

    def said(self, t: float | None, round_: str | None, text: str, *, reasoning: bool = False) -> None:
        """Add an assistant's text, as digests."""
        digests = said_digests(text)
        if digests:
            self._add(t, kind=Kind.REASONING if reasoning else Kind.ASSISTANT, round=_identifier(round_), **digests)

    def prompt(self, t: float | None, text: str, *, injected: bool = False) -> None:
        """Add a message in the user's name: the user's, or injected where a machine wrote it."""
        machine = injected or self.parent is not None or text.lstrip().startswith(CONTINUATIONS)
        self._add(t, kind=Kind.INJECTED if machine else Kind.USER, injected=machine)

    def mark(self, t: float | None, kind: Kind, **fields: Any) -> None:
        """Add an event that has no more than its kind."""
        self._add(t, kind=kind, **fields)

    def _add(self, t: float | None, **fields: Any) -> None:
        known = {key: value for key, value in fields.items() if value is not None}
        known |= {"session_id": self.id, "parent_session_id": self.parent, "agent": slug(self.agent), "source": SOURCE}
        self.events.append(ProgressEvent(t=t, **{key: _sound(value) for key, value in known.items()}))

    def _outcome(self, tool: str, args: dict[str, Any], call: Call) -> dict[str, Any]:
        if call.aborted:
            return {"exit": None}
        if call.failure is not None:
            otherwise = ErrorClass.PARSE if tool == UNFIT else None
            error = error_class(call.failure) or otherwise
            return {"exit": 1, "error": error, "result": result_digest(call.output or call.failure, 1)}
        result = {"exit": call.exit, "result": result_digest(call.output, call.exit)}
        if is_command(tool, args):
            return {
                **result,
                "error": shell_error(call.exit, call.output),
                **self._shell_landing(args["command"], call),
            }
        return {**result, **self._edit_landing(tool, args, call)}

    def _shell_landing(self, command: str, call: Call) -> dict[str, Any]:
        command = command[:MAX_COMMAND]
        fixed = self._red.observe(command, call.exit, call.output, self._edits)
        if may_write(command):
            self._edits += 1
        if commit_made(command, call.exit, call.output):
            return {"landed": True, "state": _amended(command, call.output)}
        if not fixed and call.shell_lands and call.exit == 0 and shell_edit(command):
            return {"landed": True, "state": short(f"shell\n{command.strip()}")}
        return {"landed": fixed}

    def _edit_landing(self, tool: str, args: dict[str, Any], call: Call) -> dict[str, Any]:
        if tool not in EDITS:
            return {}
        file = file_of(args) or ""
        state = call.state or _state_after(tool, file, args)
        landed = call.changed is not False and self._states.get(file) != state
        if len(self._states) < MAX_FILES:
            self._states[file] = state
        self._edits += landed
        return {"landed": landed, "state": state}


def clock(value: Any) -> float | None:
    """Return epoch seconds of an ISO time or a number (milliseconds are told by their size); None for neither."""
    from datetime import UTC, datetime

    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            value = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError, OSError):
            return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        return None
    seconds = value / 1000 if value > LATEST else float(value)
    return seconds if 0 <= seconds <= LATEST else None


def _state_after(tool: str, file: str, args: dict[str, Any]) -> str:
    """A written file is what was written; of another edit only itself is known."""
    content = args.get("content")
    written = tool == "write" and isinstance(content, str)
    return short(str(content) if written else f"{file}\n{canonical(args)}")


def _amended(command: str, output: str) -> str | None:
    """Amending without a change must not be new: what git says of the files stands for it; other commits are new."""
    if "--amend" not in command:
        return None
    return short("amend\n" + COMMITTED.sub("", output))


def _sound(value: Any) -> Any:
    """JSON may hold half of a surrogate pair, which no UTF-8 can."""
    return value if not isinstance(value, str) or value.isascii() else value.encode("utf-8", "replace").decode()


def _identifier(value: str | None) -> str | None:
    if not value:
        return None
    return value if len(value) <= MAX_ID and value.isprintable() else short(value)


def _name(value: str | None) -> str | None:
    return value[:MAX_ID] if value else None
