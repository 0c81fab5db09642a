"""Routes about alerts: what is open, one entry with the reasons of every channel, channels, silences, feedback."""

from __future__ import annotations

import json
import time
from typing import Any

from pydantic import BaseModel
from starlette.requests import Request

from actors.edge.api.context import Context
from actors.edge.api.errors import APIProblem
from actors.edge.api.models import AlertView, DeliveryView
from actors.edge.api.parameters import known_parameters, number
from actors.messages import Severity
from actors.notifier.requests import ChannelHealth, Count, Explain, Explained, Health, NotifierHealth
from actors.store.alert_reader import AlertReader
from supervisor.bus.errors import BusError
from supervisor.bus.refs import Ref

__all__ = ["list_channels", "list_feedback", "list_open", "list_silences", "show_entry"]

RECENT = 20
TIMEOUT_S = 2.0


class OpenAlert(BaseModel):
    """An alert that is open now; ``entry`` is its newest one in the log, ``acknowledged`` who has taken it on."""

    entry: int | None
    key: str
    severity: str
    title: str
    summary: str
    source: str
    opened_at: float
    changed_at: float
    acknowledged: str | None = None


class OpenAlerts(BaseModel):
    """The newest change first."""

    alerts: list[OpenAlert]


class Standing(BaseModel):
    """What a channel was told of a key last, and why it would or would not be told now."""

    name: str
    told: str | None = None
    why: str
    again_s: float | None = None


class EntryView(AlertView):
    """One entry of the log with every attempt, and what holds now; ``silences`` are those that cover the key."""

    details: dict[str, Any] = {}
    standing: list[Standing] = []
    silences: list[int] = []
    acknowledged: str | None = None


class ChannelView(ChannelHealth):
    """A channel with what it did lately."""

    recent: list[DeliveryView] = []


class ChannelList(BaseModel):
    channels: list[ChannelView]
    counts: list[Count] = []


class SilenceView(BaseModel):
    id: int
    key: str | None = None
    source: str | None = None
    severity: str
    until: float
    by_whom: str
    note: str
    at: float


class SilenceList(BaseModel):
    """Those that are in force."""

    silences: list[SilenceView]


class FeedbackView(BaseModel):
    id: int
    alert_log_id: int
    key: str
    says: str
    evidence: dict[str, Any]
    note: str
    by_whom: str
    via: str
    at: float


class FeedbackList(BaseModel):
    """The newest first."""

    feedback: list[FeedbackView]


async def list_open(context: Context, request: Request) -> OpenAlerts:
    """GET /v1/alerts/open"""
    known_parameters(request)
    reader = _reader(context)
    rows = [row for row in reader.alerts() if row.severity != Severity.INFO]
    return OpenAlerts(alerts=[_open(reader, row._asdict()) for row in rows])


async def show_entry(context: Context, request: Request) -> EntryView:
    """GET /v1/alerts/{id}: why each channel was told or not, then and now."""
    known_parameters(request)
    reader, text = _reader(context), str(request.path_params["id"])
    is_number = text.isascii() and text.isdigit() and len(text) < 19
    entry = reader.alert_log_entry(int(text)) if is_number else None
    if entry is None:
        raise APIProblem.of(404, "not_found", f"the log has no entry {text[:80]}; see GET /v1/alerts")
    deliveries = [DeliveryView.model_validate(row._asdict()) for row in reader.deliveries(entry.id)]
    stored = reader.alert(entry.key)
    details = {} if stored is None else json.loads(stored.details)
    now = await _explained(context, entry.key)
    return EntryView.model_validate(
        entry._asdict()
        | {"deliveries": deliveries, "details": details, "standing": now.channels, "silences": now.silences}
        | {"acknowledged": now.acknowledged}
    )


async def list_channels(context: Context, request: Request) -> ChannelList:
    """GET /v1/channels?limit: how each channel is, and its newest deliveries (P086)."""
    known_parameters(request, "limit")
    limit, reader = number(request, "limit", RECENT, 500), _reader(context)
    try:
        health = await Ref(context.endpoint, "notifier").ask(NotifierHealth(), Health, timeout_s=TIMEOUT_S)
    except BusError as error:
        raise APIProblem.of(503, "unavailable", f"notifier does not answer: {error}", retry_after_s=1) from None
    views = [
        ChannelView(
            **channel.model_dump(),
            recent=[
                DeliveryView.model_validate(row._asdict()) for row in reader.deliveries_of_channel(channel.name, limit)
            ],
        )
        for channel in health.channels
    ]
    return ChannelList(channels=views, counts=health.counts)


async def list_silences(context: Context, request: Request) -> SilenceList:
    """GET /v1/silences"""
    known_parameters(request)
    rows = _reader(context).silences(time.time())
    return SilenceList(silences=[SilenceView.model_validate(row._asdict()) for row in rows])


async def list_feedback(context: Context, request: Request) -> FeedbackList:
    """GET /v1/feedback?limit: what operators said of alerts, with the evidence as it was."""
    known_parameters(request, "limit")
    rows = _reader(context).feedback(number(request, "limit", 100, 1000))
    views = [FeedbackView.model_validate(row._asdict() | {"evidence": json.loads(row.evidence)}) for row in rows]
    return FeedbackList(feedback=views)


def _reader(context: Context) -> AlertReader:
    return AlertReader.beside(context.reader)


def _open(reader: AlertReader, row: dict[str, Any]) -> OpenAlert:
    newest = reader.alert_log(str(row["key"]), limit=1)
    taken_on = reader.acknowledgement(str(row["key"]))
    by = taken_on.by_whom if taken_on is not None and taken_on.opened_at == row["opened_at"] else None
    return OpenAlert.model_validate(row | {"entry": newest[0].id if newest else None, "acknowledged": by})


async def _explained(context: Context, key: str) -> Explained:
    """What holds now is worth an answer without it."""
    try:
        return await Ref(context.endpoint, "notifier").ask(Explain(key=key), Explained, timeout_s=TIMEOUT_S)
    except BusError:
        return Explained(found=False)
