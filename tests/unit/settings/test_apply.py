"""Settings on a real bus: all processes or none, versions, stragglers, later starts."""

import asyncio

import pytest

from actors.knobs import Knobs
from supervisor.bus.endpoint import Endpoint
from supervisor.bus.errors import Refused
from supervisor.bus.refs import Ref
from supervisor.settings.apply import Applier, Peers
from supervisor.settings.errors import ApplyRefused, InvalidSettings, VersionConflict
from supervisor.settings.holder import Holder
from supervisor.settings.messages import SettingsAnswer, SettingsCommit
from supervisor.settings.render import Layers
from tests.unit.settings import processes


class World:
    """A root, an applier in ``control`` and two processes ``a`` and ``b`` with holders."""

    async def start(self, directory, layers=None):
        self.directory = directory
        self.root = await processes.Root.start(directory)
        self.control = Endpoint("control", directory)
        await self.control.start()
        self.persisted = []
        self.holders = {}
        for name in ("a", "b"):
            await self.add(name)
        self.applier = Applier(self.control, Knobs, layers or Layers(), 0, self.peers, retry_every_s=0.001)
        return self

    async def add(self, name, state="ready"):
        self.root.lists(name, state)
        await self.begin(name)

    async def begin(self, name):
        process = processes.process(self.directory, name, Knobs)
        self.holders[name] = Holder(process, Knobs)
        await process.endpoint.start()
        self.endpoints = [*getattr(self, "endpoints", []), process.endpoint]

    async def peers(self):
        children = self.root.children
        return Peers(
            tuple(child["id"] for child in children if child["state"] == "ready"),
            tuple(child["id"] for child in children),
        )

    async def persist(self, rendered, overrides):
        self.persisted.append((rendered.version, overrides))

    def modes(self):
        return [holder.current.progress.mode for holder in self.holders.values()]

    async def stop(self):
        for endpoint in (self.root.endpoint, self.control, *self.endpoints):
            await endpoint.stop()


def play(directory, case, layers=None):
    async def whole():
        world = await World().start(directory, layers)
        try:
            await case(world)
        finally:
            await world.stop()

    asyncio.run(whole())


def test_apply_change_reaches_every_process_the_store_and_root(tmp_path):
    async def case(world):
        heard = []
        world.holders["a"].subscribe(lambda knobs: heard.append(knobs.progress.mode))
        applied = await world.applier.apply({"progress.mode": "auto_compact"}, world.persist)
        assert [change.path for change in applied.changes] == ["progress.mode"]
        assert world.modes() == ["auto_compact", "auto_compact"]
        assert world.holders["b"].version == 1
        assert world.persisted == [(1, {"progress.mode": "auto_compact"})]
        assert world.root.rendered[0]["version"] == 1
        assert world.root.rendered[0]["sources"]["progress.mode"] == "runtime"
        assert heard == ["auto_compact"]

    play(tmp_path, case)


def test_apply_one_refusal_changes_nothing(tmp_path):
    async def case(world):
        async def refuse(_body):
            raise Refused("invalid", ["b cannot do that"])

        world.endpoints[1].on("SettingsPrepare", refuse)
        with pytest.raises(ApplyRefused, match="nothing was changed: b refused: b cannot do that"):
            await world.applier.apply({"progress.mode": "auto_compact"}, world.persist)
        assert world.modes() == ["warn", "warn"]
        assert world.persisted == []
        assert world.root.rendered == []
        assert world.applier.current.version == 0

    play(tmp_path, case)


def test_apply_failed_store_changes_nothing(tmp_path):
    async def case(world):
        async def fail(_rendered, _overrides):
            raise OSError("disk full")

        with pytest.raises(OSError, match="disk full"):
            await world.applier.apply({"progress.mode": "auto_compact"}, fail)
        assert world.modes() == ["warn", "warn"]
        assert world.root.rendered == []
        assert world.applier.current.version == 0

    play(tmp_path, case)


def test_apply_invalid_value_is_refused_before_anyone_is_asked(tmp_path):
    async def case(world):
        with pytest.raises(InvalidSettings, match=r"progress.mode = \"no\" must be one of"):
            await world.applier.apply({"progress.mode": "no"}, world.persist)
        assert world.persisted == []

    play(tmp_path, case)


def test_apply_old_version_is_a_conflict(tmp_path):
    async def case(world):
        await world.applier.apply({"progress.window": 61}, world.persist, expected=0)
        with pytest.raises(VersionConflict, match="at version 1, not 0"):
            await world.applier.apply({"progress.window": 62}, world.persist, expected=0)
        assert world.holders["a"].current.progress.window == 61

    play(tmp_path, case)


def test_apply_none_drops_an_override_and_the_file_shows_again(tmp_path):
    async def case(world):
        await world.applier.apply({"progress.window": 90}, world.persist)
        await world.applier.apply({"progress.window": None}, world.persist)
        assert world.holders["a"].current.progress.window == 70
        assert world.applier.current.sources["progress.window"] == "file"
        assert world.applier.overrides == {}
        assert world.applier.current.version == 2

    play(tmp_path, case, Layers(file={"progress.window": 70}))


def test_apply_of_nothing_new_keeps_the_version(tmp_path):
    async def case(world):
        await world.applier.apply({"progress.window": 90}, world.persist)
        applied = await world.applier.apply({"progress.window": 90}, world.persist)
        assert (applied.changes, applied.rendered.version, len(world.persisted)) == ([], 1, 1)

    play(tmp_path, case)


def test_apply_process_that_is_starting_hears_of_it_once_it_listens(tmp_path):
    async def case(world):
        world.root.lists("late", "starting")
        await world.applier.apply({"progress.window": 90}, world.persist)
        assert "late" not in world.holders
        await world.begin("late")
        await processes.until(lambda: world.holders["late"].version == 1)
        assert world.holders["late"].current.progress.window == 90

    play(tmp_path, case)


def test_adopt_persisted_version_is_spread(tmp_path):
    async def case(world):
        assert await world.applier.adopt(4, {"progress.window": 90})
        assert world.holders["b"].version == 4
        assert world.holders["b"].current.progress.window == 90
        assert world.root.rendered[0]["version"] == 4
        assert not await world.applier.adopt(4, {"progress.window": 91})

    play(tmp_path, case)


def test_preview_changes_nothing(tmp_path):
    async def case(world):
        applied = world.applier.preview({"progress.window": 90})
        assert [(change.before, change.after) for change in applied.changes] == [(60, 90)]
        assert world.applier.current.version == 0
        assert world.holders["a"].current.progress.window == 60

    play(tmp_path, case)


def test_holder_older_version_is_ignored(tmp_path):
    async def case(world):
        await world.applier.apply({"progress.window": 90}, world.persist)
        old = SettingsCommit(version=1, values={"progress": {"window": 10}})
        answer = await Ref(world.control, "a").ask(old, SettingsAnswer)
        assert answer.version == 1
        assert world.holders["a"].current.progress.window == 90

    play(tmp_path, case)


def test_holder_failing_subscriber_does_not_stop_the_others(tmp_path):
    async def case(world):
        heard = []

        def fail(_knobs):
            raise RuntimeError("no")

        world.holders["a"].subscribe(fail)
        world.holders["a"].subscribe(lambda knobs: heard.append(knobs.progress.window))
        await world.applier.apply({"progress.window": 90}, world.persist)
        assert heard == [90]

    play(tmp_path, case)


def test_holder_bad_settings_at_the_start_are_an_error(tmp_path):
    process = processes.process(tmp_path, "a", Knobs)
    process.settings.values["progress"]["mode"] = "no"
    with pytest.raises(InvalidSettings):
        Holder(process, Knobs)


def test_reload_changed_file_reaches_every_process_and_root_keeps_the_layers(tmp_path):
    async def case(world):
        await world.applier.apply({"progress.window": 90}, world.persist)
        applied = await world.applier.reload(
            {"progress.window": 70, "progress.mode": "auto_compact"}, {}, world.persist
        )
        assert [(change.path, change.after) for change in applied.changes] == [("progress.mode", "auto_compact")]
        assert world.modes() == ["auto_compact", "auto_compact"]
        assert world.persisted[-1] == (2, {"progress.window": 90})
        assert world.root.rendered[-1]["layers"]["file"]["progress.window"] == 70
        # what the file says under an override comes back with the override's end
        await world.applier.apply({"progress.window": None}, world.persist)
        assert world.holders["a"].current.progress.window == 70

    play(tmp_path, case)


def test_reload_of_the_same_layers_is_no_new_version(tmp_path):
    async def case(world):
        applied = await world.applier.reload({}, {}, world.persist)
        assert (applied.rendered.version, applied.changes, world.persisted) == (0, [], [])

    play(tmp_path, case)


def test_reload_bad_value_or_one_refusal_changes_nothing(tmp_path):
    async def case(world):
        async def refuse(_body):
            raise Refused("invalid", ["b cannot do that"])

        with pytest.raises(InvalidSettings, match="from the file"):
            await world.applier.reload({"progress.window": "many"}, {}, world.persist)
        world.endpoints[1].on("SettingsPrepare", refuse)
        with pytest.raises(ApplyRefused):
            await world.applier.reload({"progress.mode": "auto_compact"}, {}, world.persist)
        assert (world.modes(), world.persisted, world.root.rendered) == (["warn", "warn"], [], [])

    play(tmp_path, case)
