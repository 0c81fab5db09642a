"""Every knob of treewarden: type, unit, default, bounds, hot or not, doc line. Their only source.

The reference file ``config/treewarden.yaml``, the CLI's help and the control API's schema are generated from
these models; a test holds them together. Models are frozen and refuse unknown keys. A knob that nothing reads
does not exist (R035). Thresholds of the judge are provisional until calibrated by replay (P042).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, model_validator

from actors.judge_knobs import Patterns
from actors.messages import Mode, Severity

__all__ = [
    "Clients",
    "DesktopChannel",
    "Ingest",
    "Knobs",
    "Notifications",
    "Opencode",
    "Progress",
    "Run",
    "Store",
]


def _knob(default: Any, doc: str, *, hot: bool = True, **bounds: Any) -> Any:
    """Describe one knob; ``hot`` false means that a change needs a restart of the daemon."""
    return Field(default, description=doc, json_schema_extra={"hot": hot}, **bounds)


def _turns(default: int, doc: str) -> Any:
    return _knob(default, doc, ge=1, le=100_000)


def _usd(default: float, doc: str) -> Any:
    return _knob(default, doc, gt=0, le=100_000, allow_inf_nan=False)


def _share(default: float, doc: str) -> Any:
    return _knob(default, doc, gt=0, le=1, allow_inf_nan=False)


def _calls(default: int, doc: str) -> Any:
    return _knob(default, doc, ge=2, le=10_000)


def _seconds(default: float, doc: str, *, least: float, most: float) -> Any:
    return _knob(default, doc, ge=least, le=most, allow_inf_nan=False)


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


# lower knob, upper knob: a pair out of order would make the milder verdict unreachable (P039-P041, T03)
_ORDERED = (
    ("stall_turns", "loop_turns"),
    ("stall_usd", "loop_usd"),
    ("dup_warn", "loop_dup"),
    ("fail_warn", "loop_fail"),
    ("stall_turns", "ceiling_turns"),
    ("stall_usd", "ceiling_usd"),
    ("top_repeat", "window"),
    ("top_repeat_read_only", "window"),
    ("novelty_calls", "window"),
    ("novelty_targets", "novelty_calls"),
)


def _url(value: str) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be an http:// or https:// URL with a host")
    return value.rstrip("/")


Agent = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Url = Annotated[str, AfterValidator(_url)]
ChannelName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$")]


class Progress(Patterns):
    """The judge: when a conversation is stalling or looping."""

    mode: Mode = _knob(Mode.WARN, "what may be done about a detection; in this version every mode only warns")
    window: int = _knob(60, "tool events per conversation that duplicates and repeats are counted in", ge=10, le=1000)
    stall_turns: int = _turns(25, "turns since the last landed change that are half of stalling (provisional)")
    stall_usd: float = _usd(1.00, "dollars since the last landed change that are half of stalling (provisional)")
    dup_warn: float = _share(
        0.25, "share of exact duplicates in the window, 0..1, the other half of stalling (provisional)"
    )
    fail_warn: int = _turns(5, "failures in a row of one call, the other half of stalling (provisional)")
    loop_turns: int = _turns(50, "turns since the last landed change that are half of looping (provisional)")
    loop_usd: float = _usd(3.00, "dollars since the last landed change that are half of looping (provisional)")
    loop_dup: float = _share(
        0.35, "share of exact duplicates in the window, 0..1, the other half of looping (provisional)"
    )
    loop_fail: int = _turns(10, "failures in a row of one call, the other half of looping (provisional)")
    top_repeat: int = _calls(12, "calls of one slice (path and range) in the window that are stalling (provisional)")
    top_repeat_read_only: int = _calls(8, "the same for a read-only agent (provisional)")
    session_repeat: int = _calls(
        15, "calls of one exact kind in the whole conversation that are stalling (provisional)"
    )
    novelty_calls: int = _calls(60, "calls of a read-only agent over which distinct targets are counted (provisional)")
    novelty_targets: int = _calls(
        5, "fewer distinct targets than this in novelty_calls calls are flagged (provisional)"
    )
    ceiling_turns: int = _turns(200, "turns since the last landed change that are stalling by themselves (provisional)")
    ceiling_usd: float = _usd(
        10.00, "dollars since the last landed change that are stalling by themselves (provisional)"
    )
    read_only_agents: tuple[Agent, ...] = _knob(
        ("explore", "librarian", "oracle", "plan"),
        "agents that never land anything and are judged by novelty (P010)",
    )
    retire_after_s: float = _seconds(
        1800, "seconds without an event after which a conversation retires", least=60, most=604_800
    )
    snapshot_every: int = _knob(256, "events of a tree between two snapshots", ge=16, le=100_000)
    passivate_after_s: float = _seconds(
        300, "seconds without an event after which a tree leaves memory", least=1, most=86_400
    )

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for low, high in _ORDERED:
            least, most = getattr(self, low), getattr(self, high)
            if least > most:
                raise ValueError(f"progress.{low} = {least} must be at most progress.{high} = {most}")
        return self


class Store(Section):
    """The database: how much history is kept."""

    events_per_tree: int = _knob(20_000, "newest events kept of each tree (P031)", ge=1000, le=10_000_000)
    retain_days: int = _knob(14, "days after its last event that a tree is kept", ge=1, le=3650)


class DesktopChannel(Section):
    """A channel that shows alerts on the operator's desktop over the session bus (P087, P088)."""

    name: ChannelName = _knob("desktop", "name of the channel in deliveries and commands")
    type: Literal["desktop"] = _knob("desktop", "kind of the channel")
    enabled: bool = _knob(True, "whether anything is sent")
    min_severity: Severity = _knob(Severity.WARNING, "least severity that is sent (P082)")
    resolve_messages: bool = _knob(True, "whether a short message says that an alert is over (P079)")


class Notifications(Section):
    """Who hears of an alert."""

    # the only type so far; a second one makes this a union discriminated by ``type`` (P085)
    channels: tuple[DesktopChannel, ...] = _knob((DesktopChannel(),), "where alerts go")
    timeout_s: float = _seconds(5, "seconds that one delivery may take", least=0.5, most=60)
    retries: int = _knob(1, "further attempts after a failed delivery (P083)", ge=0, le=5)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [channel.name for channel in self.channels]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"notifications.channels: name {name!r} is used {names.count(name)} times")
        return self


class Opencode(Section):
    """opencode servers to look at besides those that are found."""

    urls: tuple[Url, ...] = _knob((), "base URLs, such as http://127.0.0.1:4096")


class Clients(Section):
    """The agents' clients on this machine."""

    opencode: Opencode = _knob(Opencode(), "the opencode client")
    discovery_s: float = _seconds(30, "seconds between two looks for servers and stores", least=1, most=3600)


class Ingest(Section):
    """Limits of one POST /v1/progress."""

    max_events: int = _knob(1000, "events in one request", ge=1, le=10_000)
    max_bytes: int = _knob(1_048_576, "bytes of one request's body", ge=1024, le=8_388_608)
    commit_deadline_s: float = _seconds(
        10, "seconds until a request whose commit has not finished is answered 503", least=1, most=60
    )


class Run(Section):
    """The daemon itself."""

    port: int = _knob(7717, "TCP port on 127.0.0.1; 0 picks a free one", hot=False, ge=0, le=65_535)
    shards: int = _knob(0, "forest processes; 0 is one per core, at least 2", hot=False, ge=0, le=64)
    line_every_s: float = _seconds(300, "seconds between two lines of state on the terminal", least=1, most=86_400)


class Knobs(Section):
    """All knobs; every section has defaults, so an empty file is a valid one."""

    progress: Progress = Progress()
    store: Store = Store()
    notifications: Notifications = Notifications()
    clients: Clients = Clients()
    ingest: Ingest = Ingest()
    run: Run = Run()
