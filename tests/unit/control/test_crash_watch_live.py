"""The crash watch between a root, a keeper and a notifier on a real bus."""

import asyncio
import json
import time

from actors.crash_watch import CrashWatch
from actors.messages import AlertState
from actors.notifier.channels.contract import Delivered
from tests.unit.tree.shard_rig import rig

REPORT = {"n": 1, "at": 5.0, "supervisor": "root", "context": "slow_retry", "reason": "exit 1", "pid": 7, "log": ["w"]}


class Screen:
    """A channel that keeps what it was given."""

    def __init__(self):
        self.shown = []

    async def deliver(self, alert, now):
        self.shown.append((alert.key, alert.state))
        return Delivered()


class Word:
    """What root says; the test changes it."""

    def __init__(self, root):
        self.told = {"reports": [], "last": 0, "since": 1.0}
        self.slow = set()
        root.on("Reports", self.reports)
        root.on("Children", self.children)

    def fails(self, name):
        self.slow.add(name)
        number = self.told["last"] + 1
        self.told["reports"].append({**REPORT, "n": number, "offender": name})
        self.told["last"] = number

    async def reports(self, body):
        after = json.loads(body)["after"]
        newer = [one for one in self.told["reports"] if one["n"] > after]
        return json.dumps({**self.told, "reports": newer}).encode()

    async def children(self, _body):
        rows = [
            {"id": name, "state": "backoff" if name in self.slow else "ready", "slow": name in self.slow}
            for name in ("edge", "notifier")
        ]
        return json.dumps({"children": [{**row, "restarts": 12, "last_exit": "exit 1"} for row in rows]}).encode()


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 30))


def test_reports_are_stored_once_and_alerts_begin_and_end_once(tmp_path):
    async def case():
        async with rig(tmp_path) as r:
            word = Word(r.others[0])
            watch = CrashWatch(r.endpoint, r.reader, time.time, Screen())
            word.fails("edge")
            await watch.look()
            await watch.look()
            again = CrashWatch(r.endpoint, r.reader, time.time, Screen())
            again._raised = dict(
                watch._raised
            )  # the notifier here only takes notes, so nothing is in the table of alerts
            await again.look()
            word.slow.clear()
            await again.look()
            await again.look()
            assert [(crash.n, crash.offender) for crash in r.reader.crashes()] == [(1, "edge")]
            states = [(one["alert"]["key"], one["alert"]["state"]) for one in r.raised]
            assert states == [("process:edge", "trigger"), ("process:edge", "resolve")]
            assert r.reader.outbox_depth() == 0

    run(case())


def test_notifier_that_is_down_is_told_on_the_desktop_directly(tmp_path):
    async def case():
        async with rig(tmp_path) as r:
            word, screen = Word(r.others[0]), Screen()
            watch = CrashWatch(r.endpoint, r.reader, time.time, screen)
            r.notifier_up = False
            word.fails("edge")
            word.fails("notifier")
            await watch.look()
            assert screen.shown == [("process:notifier", AlertState.TRIGGER)]
            assert r.reader.outbox_depth() == 2

    run(case())
