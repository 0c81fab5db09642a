"""Every knob of treewarden: type, unit, default, bounds, hot or not, doc line. Their only source.

The reference file ``config/treewarden.yaml``, the CLI's help and the control API's schema are generated from
these models; a test holds them together. Models are frozen and refuse unknown keys. A knob that nothing reads
does not exist (R035). Thresholds of the judge are provisional until calibrated by replay (P042).
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import StringConstraints, model_validator

from actors.channel_knobs import AnyChannel, DesktopChannel
from actors.judge_knobs import Patterns
from actors.messages import Mode
from actors.section import EnvName, Section, Url, env_name, knob, seconds

__all__ = [
    "Clients",
    "Ingest",
    "Knobs",
    "Notifications",
    "Opencode",
    "Progress",
    "Run",
    "Store",
]


def _turns(default: int, doc: str) -> Any:
    return knob(default, doc, ge=1, le=100_000)


def _usd(default: float, doc: str) -> Any:
    return knob(default, doc, gt=0, le=100_000, allow_inf_nan=False)


def _share(default: float, doc: str) -> Any:
    return knob(default, doc, gt=0, le=1, allow_inf_nan=False)


def _calls(default: int, doc: str) -> Any:
    return knob(default, doc, ge=2, le=10_000)


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


Agent = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Progress(Patterns):
    """The judge: when a conversation is stalling or looping."""

    mode: Mode = knob(Mode.WARN, "what may be done about a detection; in this version every mode only warns")
    window: int = knob(60, "tool events per conversation that duplicates and repeats are counted in", ge=10, le=1000)
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
    read_only_agents: tuple[Agent, ...] = knob(
        ("explore", "librarian", "oracle", "plan"),
        "agents that never land anything and are judged by novelty (P010)",
    )
    retire_after_s: float = seconds(
        1800, "seconds without an event after which a conversation retires", least=60, most=604_800
    )
    snapshot_every: int = knob(256, "events of a tree between two snapshots", ge=16, le=100_000)
    passivate_after_s: float = seconds(
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

    events_per_tree: int = knob(20_000, "newest events kept of each tree (P031)", ge=1000, le=10_000_000)
    retain_days: int = knob(14, "days after its last event that a tree is kept", ge=1, le=3650)


class Notifications(Section):
    """Who hears of an alert."""

    channels: tuple[AnyChannel, ...] = knob((DesktopChannel(),), "where alerts go")
    timeout_s: float = seconds(5, "seconds that one attempt may take", least=0.5, most=60)
    retries: int = knob(1, "further attempts of a desktop channel or a command (P083)", ge=0, le=5)
    retry_for_s: float = seconds(3600, "seconds that network channels go on trying", least=0, most=604_800)
    retry_critical_for_s: float = seconds(
        86_400, "the same for critical alerts, and for the end of any alert", least=0, most=604_800
    )
    circuit_after: int = knob(5, "failed attempts in a row after which a channel counts as down", ge=1, le=1000)
    flap_changes: int = knob(4, "openings within flap_window_s that make an alert a flapping one", ge=2, le=1000)
    flap_window_s: float = seconds(900, "seconds in which openings are counted (P081)", least=1, most=86_400)
    flap_settle_s: float = seconds(
        300, "seconds without a change after which a flapping alert is told again", least=1, most=86_400
    )
    snooze_s: float = seconds(3600, "seconds that Snooze on a notification silences a tree", least=60, most=604_800)
    ping_url_env: EnvName | None = env_name("environment variable of a URL that is called while all is well", None)
    ping_every_s: float = seconds(60, "seconds between two calls of it", least=1, most=86_400)

    @model_validator(mode="after")
    def _names_differ(self) -> Self:
        names = [channel.name for channel in self.channels]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"notifications.channels: name {name!r} is used {names.count(name)} times")
        return self


class Opencode(Section):
    """opencode servers to look at besides those that are found."""

    urls: tuple[Url, ...] = knob((), "base URLs, such as http://127.0.0.1:4096")


class Clients(Section):
    """The agents' clients on this machine."""

    opencode: Opencode = knob(Opencode(), "the opencode client")
    discovery_s: float = seconds(30, "seconds between two looks for servers and stores", least=1, most=3600)


class Ingest(Section):
    """Limits of one POST /v1/progress."""

    max_events: int = knob(1000, "events in one request", ge=1, le=10_000)
    max_bytes: int = knob(1_048_576, "bytes of one request's body", ge=1024, le=8_388_608)
    commit_deadline_s: float = seconds(
        10, "seconds until a request whose commit has not finished is answered 503", least=1, most=60
    )


class Run(Section):
    """The daemon itself."""

    port: int = knob(7717, "TCP port on 127.0.0.1; 0 picks a free one", hot=False, ge=0, le=65_535)
    shards: int = knob(0, "forest processes; 0 is one per core, at least 2", hot=False, ge=0, le=64)
    line_every_s: float = seconds(300, "seconds between two lines of state on the terminal", least=1, most=86_400)


class Knobs(Section):
    """All knobs; every section has defaults, so an empty file is a valid one."""

    progress: Progress = Progress()
    store: Store = Store()
    notifications: Notifications = Notifications()
    clients: Clients = Clients()
    ingest: Ingest = Ingest()
    run: Run = Run()
