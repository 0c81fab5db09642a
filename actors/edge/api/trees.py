"""Routes about trees: the list, one tree with everything that explains it, the current warnings."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from actors.edge.api.context import Context
from actors.edge.api.errors import APIProblem
from actors.edge.api.models import TransitionView, TreeList, TreeSummary, TreeView, WarningList, WarningView
from actors.edge.api.parameters import known_parameters, number, word
from actors.messages import Status, Verdict
from actors.store.reader import Reader
from actors.store.records import TransitionRecord, TreeListing, TreeRecord
from supervisor.bus.errors import BusError

__all__ = ["list_trees", "list_warnings", "show_tree"]

TRANSITIONS_SHOWN = 200
WARNED = (Verdict.LOOPING, Verdict.STALLING)


async def list_trees(context: Context, request: Request) -> TreeList:
    """GET /v1/trees?verdict&limit&after"""
    known_parameters(request, "verdict", "limit", "after")
    limit = number(request, "limit", 100, 500)
    verdict = word(request, "verdict", Verdict)
    after = request.query_params.get("after", "")
    page = context.reader.trees(after=after, limit=limit + 1, verdict=verdict)
    shown, more = page[:limit], len(page) > limit
    return TreeList(trees=[summary(context, tree) for tree in shown], next=shown[-1].id if more else None)


async def show_tree(context: Context, request: Request) -> TreeView:
    """GET /v1/trees/{id}; the id of a merged tree or of a conversation leads to its tree."""
    known_parameters(request)
    asked = request.path_params["id"]
    tree = find_tree(context.reader, asked)
    if tree is None:
        raise APIProblem.of(404, "not_found", f"no tree and no conversation has the id {asked[:200]}")
    row = summary(context, tree).model_dump()
    fields = row | await _describe(context, tree.id)
    fields |= {name: row[name] for name in ("id", "stage", "last_event_at")}
    fields["transitions"] = [
        transition(found) for found in context.reader.transitions(tree.id, limit=TRANSITIONS_SHOWN)
    ]
    fields["quarantined"] = len(context.reader.quarantined(tree.id))
    return TreeView.model_validate(fields)


async def list_warnings(context: Context, request: Request) -> WarningList:
    """GET /v1/warnings?limit: the conversations whose verdict is not ok, the worst first."""
    known_parameters(request, "limit")
    limit = number(request, "limit", 100, 500)
    trees: list[TreeListing] = []
    for verdict in WARNED:
        trees += context.reader.trees(verdict=verdict, limit=limit + 1)
    views = await asyncio.gather(*(_warned(context, tree) for tree in trees[:limit]))
    return WarningList(warnings=[warning for view in views for warning in view], more=len(trees) > limit)


def find_tree(reader: Reader, asked: str) -> TreeRecord | None:
    """Return the live tree that ``asked`` is, was merged into, or is a conversation of."""
    tree = reader.tree(asked)
    if tree is not None and tree.merged_into is None:
        return tree
    # a merge moves the conversations, so theirs is the live tree, however often it was merged since
    found = reader.tree(reader.conversation_tree(asked) or "")
    return found if found is not None and found.merged_into is None else None


def summary(context: Context, tree: TreeListing | TreeRecord) -> TreeSummary:
    """Build a row of the list: the stored summary under the columns, which are newer."""
    fields: dict[str, Any] = json.loads(tree.summary)
    columns = {name: getattr(tree, name) for name in ("id", "verdict", "reason", "status", "stage", "last_event_at")}
    return TreeSummary(**fields | columns | {"mode": tree.mode or context.knobs().progress.mode.value})


def transition(record: TransitionRecord) -> TransitionView:
    """Build the view of a stored transition."""
    fields = record._asdict()
    fields["index"] = fields.pop("seq")
    fields["evidence"] = json.loads(record.evidence)
    return TransitionView.model_validate(fields)


async def _describe(context: Context, tree: str) -> dict[str, Any]:
    try:
        return (await context.shards.describe(tree)).view
    except BusError as error:
        problem = f"the process that owns tree {tree} does not answer: {error}"
        raise APIProblem.of(503, "unavailable", problem, retry_after_s=1) from None


async def _warned(context: Context, tree: TreeListing) -> list[WarningView]:
    """Tell of each warned conversation as its tree's actor sees it now, or as it was when the verdict changed."""
    newest = {found.conversation: found for found in context.reader.transitions(tree.id)}
    try:
        rows = (await context.shards.describe(tree.id)).view.get("conversations", [])
    except BusError:  # figures of the detection are better than no warning
        rows = _rows_of(context.reader, tree.id, newest)
    warnings = []
    for row in rows:
        if row["verdict"] != Verdict.OK and row.get("status") != Status.RETIRED:
            since = newest.get(row["id"])
            fields = row | row["evidence"] | {"tree": tree.id, "conversation": row["id"]}
            warnings.append(WarningView.model_validate(fields | {"since": since and since.t}))
    return warnings


def _rows_of(reader: Reader, tree: str, newest: Mapping[str, TransitionRecord]) -> list[dict[str, Any]]:
    known = {found.id: found for found in reader.conversations(tree)}
    return [
        {
            "id": name,
            "verdict": found.after,
            "reason": found.reason,
            "agent": known[name].agent if name in known else None,
            "parent": known[name].parent if name in known else None,
            "evidence": json.loads(found.evidence),
        }
        for name, found in newest.items()
    ]
