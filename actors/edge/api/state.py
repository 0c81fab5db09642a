"""Routes about the daemon itself: health, metrics, sensors, what clients see, alerts."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from actors.clients.requests import Sighted, Sightings
from actors.edge.api.context import Context
from actors.edge.api.errors import APIProblem
from actors.edge.api.models import AlertList, AlertView, DeliveryView, Health, SensorList, SensorView
from actors.edge.api.notification_metrics import notifications
from actors.edge.api.parameters import known_parameters, number
from actors.store.reader import Unreadable
from actors.store.requests import Health as Storage
from actors.store.requests import KeeperHealth
from supervisor.bus.errors import BusError
from supervisor.bus.refs import Ref

__all__ = ["health", "list_alerts", "list_sensors", "metrics", "sightings"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
HEALTH_TIMEOUT_S = 1.0


async def health(context: Context, _request: Request) -> Response:
    """GET /healthz: 200 while events can be stored, else 503 with the reasons. Open: says nothing of any session."""
    reasons = await _storage(context)
    sensors: list[SensorView] = []
    try:
        sensors = _sensors(context)
    except Unreadable as error:
        reasons.append(f"the database cannot be read: {error}")
    body = Health(status="degraded" if reasons else "ok", version=context.version, reasons=reasons, sensors=sensors)
    return JSONResponse(body.model_dump(), 503 if reasons else 200)


async def metrics(context: Context, _request: Request) -> Response:
    """GET /metrics"""
    if context.metrics is None:
        raise APIProblem.of(404, "not_found", "metrics are served by the TCP side")
    return Response(context.metrics() + await notifications(context), media_type=METRICS_TYPE)


async def list_sensors(context: Context, request: Request) -> SensorList:
    """GET /v1/sensors"""
    known_parameters(request)
    return SensorList(sensors=_sensors(context))


async def sightings(context: Context, request: Request) -> Sighted:
    """GET /v1/sightings: what the clients process sees of servers, stores and plugins."""
    known_parameters(request)
    try:
        return await Ref(context.endpoint, "clients").ask(Sightings(), Sighted)
    except BusError as error:
        raise APIProblem.of(503, "unavailable", f"clients does not answer: {error}", retry_after_s=1) from None


async def list_alerts(context: Context, request: Request) -> AlertList:
    """GET /v1/alerts?limit&key: the newest entries of the alert log, each with its deliveries."""
    known_parameters(request, "limit", "key")
    limit = number(request, "limit", 50, 500)
    entries = context.reader.alert_log(request.query_params.get("key"), limit=limit)
    return AlertList(alerts=[_alert(context, entry._asdict()) for entry in entries])


def _alert(context: Context, entry: dict[str, object]) -> AlertView:
    number_ = entry["id"]
    assert isinstance(number_, int)
    found = context.reader.deliveries(number_)
    deliveries = [DeliveryView.model_validate(delivery._asdict()) for delivery in found]
    return AlertView.model_validate(entry | {"deliveries": deliveries})


def _sensors(context: Context) -> list[SensorView]:
    return [SensorView.model_validate(sensor._asdict()) for sensor in context.reader.sensors()]


async def _storage(context: Context) -> list[str]:
    try:
        storage = await Ref(context.endpoint, "keeper").ask(KeeperHealth(), Storage, timeout_s=HEALTH_TIMEOUT_S)
    except BusError as error:
        return [f"keeper does not answer: {error}"]
    return [] if storage.state == "ok" else [f"storage: {storage.detail}"]
