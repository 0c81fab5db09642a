"""Admission: may this conversation spend now? Answered from memory, never by crossing a process.

The table holds one full-state row a tree. Rows arrive as tells after their commit; a row with an older revision is
ignored, so that rows which overtake each other, or the rows read at start, cannot undo a newer state.
Nothing refuses yet; the refusal fields are part of the shape: status, code, message, retry_after_s.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from actors.messages import Reason, Verdict
from actors.store.reader import Reader
from actors.store.records import TreeListing
from actors.tree.requests import TreeRow

__all__ = ["Admission", "AdmissionAnswer", "AdmissionRequest"]

PAGE = 500
Key = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class AdmissionRequest(BaseModel):
    """What a router asks before it sends a request on."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    conversation: Key
    agent: Annotated[str, StringConstraints(max_length=200)] | None = None
    parent: Key | None = None
    model: Annotated[str, StringConstraints(max_length=200)] | None = None
    prompt_tokens: Annotated[int, Field(ge=0)] | None = None


class AdmissionAnswer(BaseModel):
    """What the router does. ``tree`` of an unknown conversation is the one that its first event would make."""

    decision: str = "allow"
    status: int | None = None
    code: str | None = None
    message: str | None = None
    retry_after_s: int | None = None
    max_context_tokens: int | None = None
    skip_models: list[str] = []
    tree: str
    verdict: Verdict = Verdict.OK
    reason: Reason = Reason.NONE
    mode: str | None = None
    stage: str = "none"


class Admission:
    """The table. ``tree_of`` finds a known conversation's tree, ``mode`` is the daemon's own mode."""

    def __init__(self, tree_of: Callable[[str], str | None], mode: Callable[[], str]) -> None:
        self._tree_of = tree_of
        self._mode = mode
        self._rows: dict[str, TreeRow] = {}
        self._on_change: list[Callable[[TreeRow], None]] = []

    def on_verdict(self, function: Callable[[TreeRow], None]) -> None:
        """Call ``function(row)`` when a tree's verdict changes after the start."""
        self._on_change.append(function)

    async def update(self, row: TreeRow) -> None:
        """Take a row from a shard."""
        before = self._rows.get(row.tree)
        if self._take(row) and row.verdict != (before.verdict if before else Verdict.OK):
            for function in self._on_change:
                function(row)

    def load(self, reader: Reader) -> None:
        """Read every tree's row; newer ones that arrived meanwhile stay. Raises Unreadable."""
        after = ""
        while page := reader.trees(after=after, limit=PAGE):
            for listing in page:
                self._take(row_of(listing))
            after = page[-1].id

    def forget(self, tree: str) -> None:
        """The tree is part of another one now."""
        self._rows.pop(tree, None)

    def decide(self, request: AdmissionRequest) -> AdmissionAnswer:
        """Answer one request from memory."""
        tree = self._tree_of(request.conversation)
        if tree is None and request.parent is not None:
            tree = self._tree_of(request.parent) or request.parent
        tree = tree or request.conversation
        row = self._rows.get(tree)
        if row is None:
            return AdmissionAnswer(tree=tree, mode=self._mode())
        return AdmissionAnswer(
            tree=tree,
            verdict=row.verdict,
            reason=row.reason,
            mode=row.mode or self._mode(),
            stage=row.stage,
            max_context_tokens=row.max_context_tokens,
        )

    def states(self) -> dict[str, int]:
        """Count trees by verdict."""
        counted = Counter(row.verdict.value for row in self._rows.values())
        return {verdict.value: counted[verdict.value] for verdict in Verdict}

    def _take(self, row: TreeRow) -> bool:
        known = self._rows.get(row.tree)
        newer = known is None or known.rev < row.rev
        if newer:
            self._rows[row.tree] = row
        return newer


def row_of(listing: TreeListing) -> TreeRow:
    """Return the admission row of a stored tree; enums of a newer version raise a ValidationError."""
    fields: dict[str, Any] = {name: getattr(listing, name) for name in ("rev", "verdict", "reason", "mode", "stage")}
    return TreeRow(tree=listing.id, **fields)
