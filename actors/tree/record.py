"""What one commit of a tree writes: its row, events, transitions and effects, as the keeper's writes. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from actors.knobs import Progress
from actors.messages import AlertEffect, ProgressEvent, Transition
from actors.store.requests import Write
from actors.tree.snapshot import dump
from actors.tree.state import TreeState
from actors.tree.view import next_wakeup, summarise

__all__ = ["ALERT", "Draft", "Header", "alert_write", "effect_ids", "moves", "rows_of_conversations", "tree_row"]

ALERT = "alert"
NOTIFIER = "notifier"


@dataclass(frozen=True)
class Header:
    """Where the stored tree stands: ``rev`` 0 means not stored yet; ``transitions`` counts its stored ones."""

    rev: int = 0
    snapshot_seq: int = 0
    transitions: int = 0
    created_at: float = 0.0


@dataclass
class Draft:
    """What happened to a tree since its last commit, in order."""

    events: list[tuple[int, ProgressEvent, float]] = field(default_factory=list)  # seq, event, received_at
    transitions: list[Transition] = field(default_factory=list)
    alerts: list[AlertEffect] = field(default_factory=list)
    extra: list[Write] = field(default_factory=list)

    def take(self, effects: Iterable[Transition | AlertEffect]) -> None:
        """Sort the effects of one step."""
        for effect in effects:
            (self.transitions if isinstance(effect, Transition) else self.alerts).append(effect)  # type: ignore[arg-type]

    @property
    def durable(self) -> bool:
        """Alerts must survive power loss, progress need not."""
        return bool(self.alerts)

    def writes(self, tree: str, header: Header, now: float) -> list[Write]:
        """Return the rows of everything in the draft but the tree's own."""
        rows = [_event(tree, *entry) for entry in self.events]
        rows += [_transition(tree, header.transitions + n, one) for n, one in enumerate(self.transitions)]
        rows += [alert_write(tree, one, now) for one in self.alerts]
        return rows + self.extra


def tree_row(
    state: TreeState, header: Header, knobs: Progress, *, touched_at: float, snapshot: bool
) -> tuple[Write, Header, dict[str, Any]]:
    """Return the write of the tree's row, the header after it, and the summary it carries."""
    summary = summarise(state, knobs)
    snapshot_seq = state.seq if snapshot else header.snapshot_seq
    after = replace(header, rev=header.rev + 1, snapshot_seq=snapshot_seq)
    row = {
        "id": state.id,
        "rev": after.rev,
        "seq": state.seq,
        "verdict": summary["verdict"],
        "reason": summary["reason"],
        "status": summary["status"],
        "mode": state.mode.value if state.mode else None,
        "stage": summary["stage"] or "none",
        "summary": json.dumps(summary),
        "snapshot_seq": after.snapshot_seq,
        "snapshot": dump(state) if snapshot else None,
        "merged_into": None,
        "last_event_at": state.last_event_at if state.last_event_at is not None else state.now,
        "touched_at": touched_at,
        "next_wakeup": _on_the_wall(next_wakeup(state, knobs), state, touched_at),
    }
    if header.rev == 0:
        return Write(op="tree.create", row={**row, "created_at": header.created_at}), after, summary
    return Write(op="tree.save", row={**row, "base_rev": header.rev}), after, summary


def rows_of_conversations(
    state: TreeState, known: dict[str, tuple[str | None, str | None]], touched: Iterable[str], now: float
) -> list[Write]:
    """Return the rows of conversations in ``touched`` that differ from ``known`` (id -> parent, agent); updates it."""
    rows = []
    for one in (state.conversations[name] for name in touched if name in state.conversations):
        if known.get(one.id) != (one.parent, one.agent):
            known[one.id] = (one.parent, one.agent)
            row = {"id": one.id, "tree": state.id, "parent": one.parent, "agent": one.agent, "created_at": now}
            rows.append(Write(op="conversation.save", row=row))
    return rows


def moves(other: str, header: Header, into: str, *, offset: int, n_offset: int, now: float) -> list[Write]:
    """Return the writes that hand all rows of ``other`` (stored as ``header`` says) to tree ``into``."""
    both = {"into": into, "other": other}
    merged = {"id": other, "base_rev": header.rev, "rev": header.rev + 1, "into": into, "touched_at": now}
    return [
        Write(op="tree.merged", row=merged),
        Write(op="conversation.move", row=both),
        Write(op="event.move", row={**both, "offset": offset}),
        Write(op="transition.move", row={**both, "offset": offset, "n_offset": n_offset}),
        Write(op="quarantine.move", row=both),
    ]


def effect_ids(writes: Sequence[Write], rows: Sequence[int]) -> list[int]:
    """Return the outbox ids that the keeper gave to the alerts of a commit, in order."""
    return [number for write, number in zip(writes, rows, strict=True) if write.op == "outbox.add"]


def _event(tree: str, seq: int, event: ProgressEvent, received_at: float) -> Write:
    row = {
        "tree": tree,
        "seq": seq,
        "conversation": event.session_id,
        "event_id": event.id,
        "t": event.t,
        "received_at": received_at,
        "body": event.model_dump_json(exclude_defaults=True),
    }
    return Write(op="event.add", row=row)


def _transition(tree: str, n: int, one: Transition) -> Write:
    row = {
        "tree": tree,
        "n": n,
        "seq": one.index,
        "conversation": one.conversation,
        "t": one.t,
        "before": one.before,
        "after": one.after,
        "reason": one.reason,
        "tree_verdict": one.tree_verdict,
        "evidence": one.evidence.model_dump_json(),
    }
    return Write(op="transition.add", row=row)


def alert_write(owner: str, alert: AlertEffect, now: float) -> Write:
    """Return the outbox row of an alert; the shard whose share ``owner`` falls into sees to it."""
    row = {
        "tree": owner,
        "kind": ALERT,
        "target": NOTIFIER,
        "one_shot": 0,
        "state": "pending",
        "body": alert.model_dump_json(),
        "created_at": now,
    }
    return Write(op="outbox.add", row=row)


def _on_the_wall(due: float | None, state: TreeState, touched_at: float) -> float | None:
    """Turn a time of the tree's clock into wall time: both ran alike since the last receipt."""
    return None if due is None else touched_at + max(0.0, due - state.now)
