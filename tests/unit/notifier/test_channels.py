"""The contract that every channel keeps, over all of them; and the table against the settings."""

from __future__ import annotations

import asyncio
import typing
from pathlib import Path

import pytest

from actors.channel_knobs import Setting
from actors.knobs import Notifications
from actors.messages import AlertState
from actors.notifier.channels.contract import Channel, Delivered, Failure, Rejected, Retry
from actors.notifier.channels.registry import CHANNELS, Tools
from actors.notifier.secrets import missing
from tests.unit.notifier.channel_samples import NOWHERE, SETTINGS
from tests.unit.notifier.scripted import message


def unreachable(kind: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Channel:
    """Build the channel on a machine where it cannot work: nothing listens, nothing is installed."""
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={directory}/nothing")
    monkeypatch.setenv("PATH", str(directory))
    return CHANNELS[kind].build(SETTINGS[kind], Tools(environ=NOWHERE))


def test_registry_holds_exactly_the_types_of_the_settings() -> None:
    types = {
        name for model in typing.get_args(Setting) for name in typing.get_args(model.model_fields["type"].annotation)
    }
    assert set(CHANNELS) == set(SETTINGS) == types


def test_samples_are_settings_as_a_file_has_them() -> None:
    made = Notifications.model_validate({"channels": [setting.model_dump() for setting in SETTINGS.values()]})
    assert made.channels == tuple(SETTINGS.values())


@pytest.mark.parametrize("kind", sorted(CHANNELS))
def test_channel_whose_variables_are_not_set_names_them(kind: str) -> None:
    named = [value for field, value in SETTINGS[kind] if field.endswith("_env") and value]
    said = missing(SETTINGS[kind], {})
    assert all(name in said for name in named)
    assert bool(said) == bool(named)
    assert missing(SETTINGS[kind], NOWHERE) == ""


@pytest.mark.parametrize("kind", sorted(CHANNELS))
def test_channel_that_cannot_work_answers_with_reason_and_sentence(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = unreachable(kind, tmp_path, monkeypatch)
    for state in AlertState:
        answer = asyncio.run(_once(channel, state))
        assert isinstance(answer, Rejected | Retry)
        assert isinstance(answer.reason, Failure)
        assert " " in answer.detail
        assert not any(secret in answer.detail for secret in NOWHERE.values())


async def _once(channel: Channel, state: AlertState) -> object:
    try:
        return await channel.deliver(message(state=state), 1.0)
    finally:
        await channel.close()


@pytest.mark.parametrize("kind", ["apprise", "command", "desktop", "pagerduty"])
def test_channel_that_cannot_work_says_so_when_looked_at(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = NOWHERE | {"APPRISE_URL": "no-such-service://x", "ROUTING_KEY": "short"}
    unreachable(kind, tmp_path, monkeypatch)
    channel = CHANNELS[kind].build(SETTINGS[kind], Tools(environ=environ))
    assert " " in asyncio.run(channel.sight())


@pytest.mark.parametrize("kind", sorted(CHANNELS))
def test_channel_cancelled_anywhere_stays_usable(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = unreachable(kind, tmp_path, monkeypatch)

    async def run() -> None:
        for steps in range(5):
            task = asyncio.create_task(channel.deliver(message(), 1.0))
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert isinstance(await channel.deliver(message(), 1.0), Delivered | Rejected | Retry)
        await channel.close()

    asyncio.run(run())


@pytest.mark.parametrize("kind", sorted(CHANNELS))
def test_channel_closes_more_than_once(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = unreachable(kind, tmp_path, monkeypatch)

    async def run() -> str:
        await channel.close()
        await channel.close()
        return await channel.sight()

    assert isinstance(asyncio.run(run()), str)
