"""A forest shard with the real keeper: commits, crashes, duplicates, effects, late parents, passive trees."""

import asyncio
import json

import apsw
import pytest
import uvloop

from actors.knobs import Knobs
from actors.messages import Command
from actors.tree.actor import Actions, TreeActor
from actors.tree.mailbox import Apply
from actors.tree.requests import Described, Operate, Release, Released
from actors.tree.shelf import Shelf
from actors.tree.step import step
from supervisor.dispatcher import ask
from tests.unit.tree.shard_rig import Rig, reads, rig, until
from tests.unit.tree.streams import SPECIFICATION


def run(coroutine):
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(coroutine, 30))


def test_ingest_commits_before_it_answers(tmp_path):
    async def case():
        async with rig(tmp_path) as r:
            outcome = await r.ingest("c1", reads(10))
            assert (outcome.accepted, outcome.duplicates, outcome.failed) == (10, 0, None)
            assert [e.event_id for e in r.reader.events_after("c1", 0)] == [f"c1-{n}" for n in range(10)]
            assert r.reader.tree("c1").seq == 10
            assert r.reader.conversation_tree("c1") == "c1"

    run(case())


def test_repeated_delivery_is_dropped_also_after_a_restart(tmp_path):
    async def case():
        async with rig(tmp_path) as r:
            await r.ingest("c1", reads(10))
            again = await r.ingest("c1", reads(12))
            assert (again.accepted, again.duplicates) == (2, 10)
            await r.end("forest-0", kill=True)
            await r.begin_shard()
            third = await r.ingest("c1", reads(13))
            assert (third.accepted, third.duplicates) == (1, 12)
            assert r.reader.event_count("c1") == 13

    run(case())


def test_events_without_ids_twice_are_two(tmp_path):
    async def case():
        async with rig(tmp_path) as r:
            bare = [event.model_copy(update={"id": None}) for event in reads(3)]
            assert (await r.ingest("c1", bare)).accepted == 3
            assert (await r.ingest("c1", bare)).accepted == 3

    run(case())


def test_thousand_events_in_one_verdict_are_one_alert(tmp_path):
    async def case():
        knobs = Knobs(progress=SPECIFICATION.model_copy(update={"loop_turns": 5000, "loop_usd": 5000.0}))
        async with rig(tmp_path, knobs=knobs) as r:
            for start in range(0, 1000, 50):
                await r.ingest("c1", reads(50, start=start))
            await until(lambda: r.raised)
            assert r.reader.outbox_depth() <= 1
            assert [(a["alert"]["state"], a["alert"]["key"]) for a in r.raised] == [("trigger", "c1")]
            transitions = r.reader.transitions("c1")
            assert [(t.before, t.after) for t in transitions] == [("ok", "stalling")]
            await until(lambda: r.rows and r.rows[-1]["verdict"] == "stalling")

    run(case())


def test_alert_waits_for_the_notifier_and_survives_the_shard(tmp_path):
    async def case():
        async with rig(tmp_path) as r:
            r.notifier_up = False
            await r.ingest("c1", reads(30))
            await r.end("forest-0", kill=True)
            assert r.reader.outbox_depth() == 1
            r.notifier_up = True
            await r.begin_shard()
            await until(lambda: r.raised)
            await until(lambda: r.reader.outbox_depth() == 0)

    run(case())


def test_restarted_shard_judges_on_as_if_nothing_happened(tmp_path):
    """Kill after every single batch: the transitions are those of an undisturbed run."""

    async def transitions(directory, kills: bool):
        directory.mkdir()
        async with rig(directory) as r:
            for start in range(0, 60, 5):
                await r.ingest("c1", reads(5, start=start))
                if kills:
                    await r.end("forest-0", kill=True)
                    await r.begin_shard()
            return [(t.n, t.seq, t.before, t.after, t.reason, t.evidence) for t in r.reader.transitions("c1")]

    calm = run(transitions(tmp_path / "calm", kills=False))
    killed = run(transitions(tmp_path / "killed", kills=True))
    assert len(calm) == 2
    assert killed == calm


def test_late_parent_moves_history_and_resolves_its_alert(tmp_path):
    async def case():
        async with rig(tmp_path, shards=2) as r:
            await r.ingest("child", reads(30, session="child"))
            await r.ingest("root", reads(3, session="root", fingerprint=None, slice=None, result=None))
            outcome = await r.adopt("root", "child", "root")
            assert outcome.failed is None
            assert r.reader.tree("child").merged_into == "root"
            assert r.reader.event_count("child") == 0
            assert r.reader.event_count("root") == 33
            assert {c.id: c.parent for c in r.reader.conversations("root")} == {"root": None, "child": "root"}
            view = await r.describe("root")
            assert view["verdict"] == "stalling"
            await until(lambda: ("resolve", "child") in [(a["alert"]["state"], a["alert"]["key"]) for a in r.raised])
            await until(lambda: ("trigger", "root") in [(a["alert"]["state"], a["alert"]["key"]) for a in r.raised])
            again = await r.adopt("root", "child", "root")
            assert again.failed is None, "an adoption whose answer was lost can be repeated"
            assert (await r.ingest("child", reads(1, session="child", start=99))).failed == "moved"
            assert (await r.ingest("root", reads(40, session="child"))).duplicates == 30

    run(case())


def test_keeper_away_answers_busy_and_nothing_is_doubled(tmp_path):
    async def case():
        async with rig(tmp_path) as r:
            await r.ingest("c1", reads(5))
            await r.end("keeper")
            assert (await r.ingest("c1", reads(10))).failed == "busy"
            from actors.store import keeper

            await r.begin("keeper", keeper.main)
            outcome = await r.ingest("c1", reads(10))
            assert (outcome.accepted, outcome.duplicates) == (5, 5)
            assert r.reader.event_count("c1") == 10

    run(case())


def test_operator_resume_resets_and_is_audited(tmp_path):
    async def case():
        async with rig(tmp_path) as r:
            await r.ingest("c1", reads(30))
            order = Operate(tree="c1", command=Command(t=0, action="resume", by="me"), uid=1000)
            view = (await r.ref("c1").ask(order, Described)).view
            assert (view["verdict"], view["turns_since_landed"]) == ("ok", 0)
            assert [(row.uid, row.action) for row in r.reader.audit()] == [(1000, "resume")]
            missing = Operate(tree="nobody", command=Command(t=0, action="resume"), uid=0)
            assert not (await r.ref("nobody").ask(missing, Described)).found

    run(case())


def test_crashing_event_is_named_and_the_tree_goes_on(tmp_path):
    """The poison is the event's own: a step that raises for it stands for any defect in the judge."""

    def fragile(state, event, knobs):
        if getattr(event, "tool", None) == "poison":
            raise ZeroDivisionError("poison")
        return step(state, event, knobs)

    async def case():
        r = Rig(tmp_path)
        await r.start()
        knobs = Knobs().progress
        shelf = Shelf(r.reader, lambda: knobs, lambda: 5.0)
        from actors.store.requests import Committed
        from supervisor.bus.refs import Ref

        keeper = Ref(r.endpoint, "keeper")

        async def commit(request):
            return await keeper.ask(request, Committed)

        gone = []
        actions = Actions(commit, lambda row: None, lambda *_: None, gone.append, step=fragile)
        events = reads(5)
        events[3] = events[3].model_copy(update={"tool": "poison"})
        actor = TreeActor.start("c1", shelf, actions)
        bad, behind = await asyncio.gather(ask(actor, Apply(events)), ask(actor, Apply(reads(2, start=50))))
        assert (bad.failed, bad.index) == ("crashed", 3)
        assert behind.failed == "busy"
        assert gone == ["c1"]
        rest = [event for event in events if event.tool != "poison"]
        assert (await ask(TreeActor.start("c1", shelf, actions), Apply(rest))).accepted == 4
        await r.stop()

    run(case())


@pytest.mark.parametrize("passive", [False, True])
def test_idle_tree_retires_by_wall_time_although_its_events_are_old(tmp_path, passive):
    async def case():
        async with rig(tmp_path) as r:
            await r.ingest("c1", reads(30))
            if passive:
                await r.ref("c1").ask(Release(tree="c1"), Released)
            r.ahead_s = Knobs().progress.retire_after_s + 1.0
            await until(lambda: r.reader.tree("c1").status == "retired")
            assert r.reader.tree("c1").verdict == "ok"
            assert [(t.after, t.reason) for t in r.reader.transitions("c1")][-1] == ("ok", "retired")
            assert r.reader.tree("c1").next_wakeup is None
            await until(lambda: r.raised and r.raised[-1]["alert"]["state"] == "resolve")

    run(case())


async def damage_snapshot(r, tree, snapshot):
    """Leave ``tree`` passive with another snapshot."""
    await r.ref(tree).ask(Release(tree=tree), Released)
    await r.end("forest-0")
    db = apsw.Connection(str(r.directory / "treewarden.db"))
    db.set_busy_timeout(5000)
    db.execute("UPDATE trees SET snapshot = ? WHERE id = ?", (snapshot, tree))
    db.close()
    await r.begin_shard()


@pytest.mark.parametrize("snapshot", ["[[1]]", "null", "5", '{"broken": true}', "{", "[" * 5000])
def test_snapshot_of_any_other_shape_is_rebuilt_from_the_events(tmp_path, snapshot):
    async def case():
        async with rig(tmp_path) as r:
            await r.ingest("c1", reads(3))
            await damage_snapshot(r, "c1", snapshot)
            outcome = await r.ingest("c1", reads(1, start=3))
            assert (outcome.accepted, outcome.failed) == (1, None)
            assert (await r.describe("c1"))["events"] == 4

    run(case())


def test_tree_that_cannot_be_woken_does_not_keep_the_others_asleep(tmp_path):
    async def case():
        async with rig(tmp_path) as r:
            await r.ingest("a", reads(3, session="a"))
            await r.ingest("b", reads(3, session="b"))
            await r.ref("a").ask(Release(tree="a"), Released)
            broken = json.loads(r.reader.tree("a").snapshot) | {"now": "no number"}
            await damage_snapshot(r, "a", json.dumps(broken))
            r.ahead_s = Knobs().progress.retire_after_s + 1.0
            await until(lambda: r.reader.tree("b").status == "retired")
            assert r.reader.tree("a").status == "active"

    run(case())


def test_summary_row_is_what_the_step_says(tmp_path):
    async def case():
        async with rig(tmp_path) as r:
            await r.ingest("c1", reads(26))
            row = json.loads(r.reader.tree("c1").summary)
            assert {k: row[k] for k in ("id", "verdict", "events", "conversations", "turns_since_landed")} == {
                "id": "c1",
                "verdict": "stalling",
                "events": 26,
                "conversations": 1,
                "turns_since_landed": 26,
            }

    run(case())
