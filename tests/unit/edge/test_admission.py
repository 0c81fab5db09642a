"""The admission table: monotonic revisions, loading, and what an unknown conversation gets."""

from __future__ import annotations

import asyncio
from typing import Any

from actors.edge.admission import Admission, AdmissionRequest
from actors.edge.auth import Scope
from actors.messages import Mode, Reason, Verdict
from actors.tree.requests import TreeRow
from tests.unit.edge.world import World, run, world

TREES = {"kid": "root", "root": "root"}


def row(rev: int, verdict: Verdict = Verdict.OK, **fields: Any) -> TreeRow:
    return TreeRow(tree="root", rev=rev, verdict=verdict, reason=Reason.NONE, **fields)


def table(*rows: TreeRow) -> Admission:
    admission = Admission(TREES.get, lambda: "warn")
    for each in rows:
        asyncio.run(admission.update(each))
    return admission


def verdict_of(admission: Admission, conversation: str, parent: str | None = None) -> tuple[str, Verdict]:
    answer = admission.decide(AdmissionRequest(conversation=conversation, parent=parent))
    assert (answer.decision, answer.skip_models) == ("allow", [])
    return answer.tree, answer.verdict


def test_row_of_older_revision_is_ignored() -> None:
    admission = table(row(5, Verdict.LOOPING), row(4), row(5))
    assert verdict_of(admission, "kid") == ("root", Verdict.LOOPING)
    assert verdict_of(table(row(5, Verdict.LOOPING), row(6)), "kid") == ("root", Verdict.OK)


def test_conversation_unknown_gets_the_tree_of_its_parent() -> None:
    admission = table(row(1, Verdict.STALLING))
    assert verdict_of(admission, "new", "kid") == ("root", Verdict.STALLING)
    assert verdict_of(admission, "new", "nobody") == ("nobody", Verdict.OK)
    assert verdict_of(admission, "new") == ("new", Verdict.OK)
    assert verdict_of(admission, "kid", "nobody") == ("root", Verdict.STALLING)


def test_mode_of_the_tree_stands_before_the_daemons() -> None:
    request = AdmissionRequest(conversation="root")
    assert table(row(1)).decide(request).mode == "warn"
    answer = table(row(1, mode=Mode.AUTO_RECOVER, max_context_tokens=5)).decide(request)
    assert (answer.mode, answer.max_context_tokens) == ("auto_recover", 5)


def test_verdict_changes_are_told_once() -> None:
    admission, told = Admission(TREES.get, lambda: "warn"), []
    admission.on_verdict(lambda each: told.append(each.verdict))
    for each in (row(1), row(2, Verdict.LOOPING), row(3, Verdict.LOOPING), row(2), row(4)):
        asyncio.run(admission.update(each))
    assert told == [Verdict.LOOPING, Verdict.OK]
    assert admission.states() == {"ok": 1, "stalling": 0, "looping": 0}


def test_table_is_read_at_start_and_updated_over_the_bus() -> None:
    async def fill(made: World) -> None:
        tree = {
            "id": "t", "rev": 7, "seq": 3, "verdict": "looping", "reason": "duplicates", "status": "active",
            "stage": "none", "summary": "{}", "snapshot_seq": 0, "created_at": 1.0, "last_event_at": 2.0,
            "touched_at": 2.0,
        }  # fmt: skip
        kid = {"id": "kid", "tree": "t", "created_at": 1.0}
        await made.write(("tree.create", tree), ("conversation.save", kid))

    async def test() -> None:
        async with world(load=fill) as made, made.client(Scope.ROUTER) as client:
            first = (await client.post("/v1/admission", json={"conversation": "kid"})).json()
            assert (first["tree"], first["verdict"], first["reason"]) == ("t", "looping", "duplicates")
            for rev, verdict in ((6, Verdict.STALLING), (8, Verdict.OK)):
                update = TreeRow(tree="t", rev=rev, verdict=verdict, reason=Reason.LANDED)
                await made.forest_of("t").tell(update)
            answer: dict[str, Any] = first
            while answer["verdict"] == "looping":
                answer = (await client.post("/v1/admission", json={"conversation": "kid"})).json()
            assert (answer["verdict"], answer["reason"]) == ("ok", "landed")

    run(test)
