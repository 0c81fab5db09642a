"""Alerts of a tree: one lifecycle per tree that follows the tree's verdict, keyed by the tree's id (P050, P139).

Edges only: a thousand events inside one verdict are one alert. A step back from looping to stalling says nothing new.
"""

from __future__ import annotations

from actors.messages import AlertEffect, AlertState, Severity, Transition, Verdict
from actors.tree.judge import rank
from actors.tree.sentences import sentence_of
from actors.tree.signals import evidence_of
from actors.tree.state import Conversation, TreeState
from actors.tree.verdicts import Run

__all__ = ["SEVERITY", "follow_verdict", "resolve_alert", "worst_of"]

SEVERITY = {Verdict.STALLING: Severity.WARNING, Verdict.LOOPING: Severity.CRITICAL}


def follow_verdict(run: Run) -> None:
    """Append what the alert of this tree needs after the transitions of this run."""
    tree, verdict = run.tree, run.tree.verdict
    if verdict is tree.alerted:
        return
    if verdict is Verdict.OK:
        run.out.append(resolve_alert(run, tree.id))
        tree.alerted = Verdict.OK
    elif rank(verdict) > rank(tree.alerted):
        state = AlertState.TRIGGER if tree.alerted is Verdict.OK else AlertState.ESCALATE
        run.out.append(_raised(run, state, verdict))
        tree.alerted = verdict


def worst_of(tree: TreeState) -> Conversation | None:
    """Return the conversation that gives the tree its verdict, the root when all is well."""
    worst = tree.conversations.get(tree.id)
    for one in tree.conversations.values():
        if worst is None or rank(one.verdict) > rank(worst.verdict):
            worst = one
    return worst


def resolve_alert(run: Run, key: str) -> AlertEffect:
    """Build the end of the alert ``key``; the last transition of the run gives the reason."""
    last = next((one for one in reversed(run.out) if isinstance(one, Transition)), None)
    reason = last.reason.value if last else "merged"
    name = last.conversation if last else key
    return AlertEffect(
        key=key,
        state=AlertState.RESOLVE,
        severity=Severity.INFO,
        title=f"{name} is ok again",
        summary=f"session {name}: {reason}",
        details={"conversation": name, "reason": reason, "mode": _mode(run)},
        t=run.tree.now,
    )


def _below(tree: TreeState, conversation: str) -> str:
    """Name the root where a descendant is meant: the operator acts on the tree."""
    return "" if conversation == tree.id else f", below {tree.id}"


def _mode(run: Run) -> str:
    return (run.tree.mode or run.knobs.mode).value


def _raised(run: Run, state: AlertState, verdict: Verdict) -> AlertEffect:
    worst = worst_of(run.tree)
    assert worst is not None
    evidence = evidence_of(worst, run.knobs)
    sentence = sentence_of(worst.reason, evidence)
    agent = worst.agent or "agent"
    repeated = f", top repeat {evidence.top_target} x{evidence.top_repeat}" if evidence.top_target else ""
    return AlertEffect(
        key=run.tree.id,
        state=state,
        severity=SEVERITY[verdict],
        title=f"{agent} is {verdict.value}: {sentence}",
        summary=(
            f"session {worst.id} ({agent}{_below(run.tree, worst.id)}): {evidence.turns_since_landed} turns and "
            f"${evidence.usd_since_landed:.2f} since the last landed change{repeated}; {sentence}"
        ),
        details={
            "conversation": worst.id,
            "agent": worst.agent,
            "verdict": verdict.value,
            "reason": worst.reason.value,
            "sentence": sentence,
            "mode": _mode(run),
            **evidence.model_dump(mode="json"),
        },
        t=run.tree.now,
    )
