"""The contract that every channel keeps, over all of them; and the table against the settings."""

from __future__ import annotations

import asyncio
import typing
from pathlib import Path

import pytest

from actors.knobs import DesktopChannel, Notifications
from actors.messages import AlertState
from actors.notifier.channels.contract import Channel, Delivered, Failure, Rejected, Retry
from actors.notifier.channels.registry import CHANNELS, Setting
from tests.unit.notifier.scripted import message

SETTINGS: dict[str, Setting] = {"desktop": DesktopChannel()}


def unreachable(kind: str, directory: Path, monkeypatch: pytest.MonkeyPatch) -> Channel:
    """Build the channel on a machine where it cannot work."""
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={directory}/nothing")
    monkeypatch.setenv("PATH", str(directory))
    return CHANNELS[kind].build(SETTINGS[kind])


def test_registry_holds_exactly_the_types_of_the_settings() -> None:
    (item, _) = typing.get_args(Notifications.model_fields["channels"].annotation)
    models = typing.get_args(item) or (item,)
    types = {name for model in models for name in typing.get_args(model.model_fields["type"].annotation)}
    assert set(CHANNELS) == set(SETTINGS) == types


@pytest.mark.parametrize("kind", sorted(CHANNELS))
def test_channel_that_cannot_work_answers_with_reason_and_sentence(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = unreachable(kind, tmp_path, monkeypatch)
    for state in AlertState:
        answer = asyncio.run(channel.deliver(message(state=state), 1.0))
        assert isinstance(answer, Rejected | Retry)
        assert isinstance(answer.reason, Failure)
        assert " " in answer.detail


@pytest.mark.parametrize("kind", sorted(CHANNELS))
def test_channel_that_cannot_work_says_so_when_looked_at(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert " " in asyncio.run(unreachable(kind, tmp_path, monkeypatch).sight())


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

    asyncio.run(run())


@pytest.mark.parametrize("kind", sorted(CHANNELS))
def test_channel_closes_more_than_once(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    channel = unreachable(kind, tmp_path, monkeypatch)

    async def run() -> str:
        await channel.close()
        await channel.close()
        return await channel.sight()

    assert asyncio.run(run())
