"""The services that alerts go to, on loopback, as their documents describe them: paths, bodies, status codes, headers.

``Services`` is one HTTP server for all of them: a webhook receiver, ntfy (POST of JSON, X-Sequence-ID), Slack incoming
webhooks, PagerDuty Events v2, Twilio Messages, RingCentral's token and sms resources, and apprise's json://. Each
message that was taken is an ``Arrival``. ``fault`` says what goes wrong with the next request of a service: an HTTP
status, "hang" (taken or not, never answered), "lost" (taken, the connection dropped before the answer), "drop" (the
connection dropped before anything was taken). ``Mailbox`` is a real SMTP server with the same faults.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import parse_qs

from aiosmtpd.controller import Controller

from tests.e2e.loopback import LoopbackServer

__all__ = ["Arrival", "Mailbox", "Services"]

SECRETS = {
    "HOOK_KEY": "hook-key",
    "NTFY_TOKEN": "tk_ntfy",
    "ROUTING_KEY": "R" * 32,
    "TWILIO_SID": "AC" + "0" * 32,
    "TWILIO_TOKEN": "twilio-token",
    "RC_ID": "rc-id",
    "RC_SECRET": "rc-secret",
    "RC_JWT": "rc-jwt",
}
HANG_S = 1.5

Fault = str | int | None
Faults = Callable[[str], Fault]


@dataclass(frozen=True)
class Arrival:
    """One message that a service took. ``body`` is JSON, a form or a mail; header names are lower case."""

    service: str
    body: Any
    headers: dict[str, str] = field(default_factory=dict)


def _no_fault(_service: str) -> Fault:
    return None


class Services(LoopbackServer):
    """See the module. ``arrivals`` grows; ``requests`` counts also those that came to nothing."""

    request_queue_size = 128

    def __init__(self, fault: Faults = _no_fault) -> None:
        super().__init__(_Handler)
        self.fault = fault
        self.arrivals: list[Arrival] = []
        self.requests: dict[str, int] = {}
        self.faults: dict[str, int] = {}
        self.rc_tokens: set[str] = set()
        self.stopping = threading.Event()
        self.start()

    @property
    def env(self) -> dict[str, str]:
        """The variables that channels at this server need."""
        port = self.server_address[1]
        slack = f"{self.url}/services/T0/B0/x"
        return SECRETS | {"SLACK_URL": slack, "APPRISE_URL": f"json://127.0.0.1:{port}/apprise"}

    def got(self, service: str) -> list[Arrival]:
        return [one for one in list(self.arrivals) if one.service == service]

    def close(self) -> None:
        self.stopping.set()
        self.stop()

    def begin(self, service: str) -> Fault:
        """Count a request and say what is to go wrong with it."""
        self.requests[service] = self.requests.get(service, 0) + 1
        fault = self.fault(service)
        if fault is not None:
            name = f"{service} {fault}"
            self.faults[name] = self.faults.get(name, 0) + 1
        return fault


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Services

    def log_message(self, *_: Any) -> None:
        return None

    def do_GET(self) -> None:
        self.server.arrivals.append(Arrival("ping", self.path))
        self._say(200, {"ok": True})

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("content-length", 0)))
        for start, (service, serve) in _ROUTES.items():
            if self.path == start or (start.endswith("/") and start != "/" and self.path.startswith(start)):
                self._with_fault(service, lambda serve=serve: serve(self, raw))  # type: ignore[misc]
                return
        self._say(404, {"error": "not found"})

    def _with_fault(self, service: str, serve: Callable[[], tuple[int, Any, Arrival | None]]) -> None:
        fault = self.server.begin(service)
        if fault == "drop":
            self.close_connection = True
            self.connection.close()
            return
        if isinstance(fault, int):
            headers = {"Retry-After": "1"} if fault == 429 else {}
            self._say(fault, {"message": f"fault {fault}"}, headers)
            return
        status, body, arrival = serve()
        if arrival is not None:
            self.server.arrivals.append(arrival)
        if fault == "hang":
            self.server.stopping.wait(HANG_S)
            self.close_connection = True
        elif fault == "lost":
            self.close_connection = True
            self.connection.close()
        else:
            self._say(status, body)

    def _say(self, status: int, body: Any, headers: dict[str, str] | None = None) -> None:
        text = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain" if isinstance(body, str) else "application/json")
        self.send_header("Content-Length", str(len(text)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(text)

    def lower(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers.items()}


Answer = tuple[int, Any, Arrival | None]


def _hook(request: _Handler, raw: bytes) -> Answer:
    head = request.lower()
    at, _, given = head["x-treewarden-signature"].removeprefix("t=").partition(",v1=")
    wanted = hmac.new(SECRETS["HOOK_KEY"].encode(), f"{at}.".encode() + raw, hashlib.sha256).hexdigest()
    if not hmac.compare_digest(given, wanted):
        return 401, {"error": "signature"}, None
    return 204, "", Arrival("webhook", json.loads(raw), head)


def _ntfy(request: _Handler, raw: bytes) -> Answer:
    head = request.lower()
    if head.get("authorization") != f"Bearer {SECRETS['NTFY_TOKEN']}":
        return 401, {"code": 40101, "http": 401, "error": "unauthorized"}, None
    body = json.loads(raw)
    if body["topic"] != "topic" or len(body["message"].encode()) > 4096 or body["priority"] not in range(1, 6):
        return 400, {"code": 40024, "http": 400, "error": "invalid request: body must be valid JSON"}, None
    return 200, {"id": "x", "event": "message", **body}, Arrival("ntfy", body, head)


def _slack(request: _Handler, raw: bytes) -> Answer:
    body = json.loads(raw)
    if not body.get("attachments") and not body.get("text"):
        return 400, "no_text", None
    return 200, "ok", Arrival("slack", body, request.lower())


def _pagerduty(request: _Handler, raw: bytes) -> Answer:
    body = json.loads(raw)
    wrong = []
    if len(body.get("routing_key", "")) != 32:
        wrong.append("'routing_key' is missing or blank")
    if body.get("event_action") not in ("trigger", "acknowledge", "resolve"):
        wrong.append("'event_action' is invalid")
    if body.get("event_action") == "trigger":
        payload = body.get("payload", {})
        wrong += [f"'payload.{name}' is missing" for name in ("summary", "source", "severity") if not payload.get(name)]
        if len(payload.get("summary", "")) > 1024 or payload.get("severity") not in (
            "critical",
            "error",
            "warning",
            "info",
        ):
            wrong.append("'payload' is invalid")
    if not 0 < len(body.get("dedup_key", "")) <= 255 or wrong:
        return 400, {"status": "invalid event", "message": "Event object is invalid", "errors": wrong}, None
    said = {"status": "success", "message": "Event processed", "dedup_key": body["dedup_key"]}
    return 202, said, Arrival("pagerduty", body, request.lower())


def _twilio(request: _Handler, raw: bytes) -> Answer:
    login = base64.b64encode(f"{SECRETS['TWILIO_SID']}:{SECRETS['TWILIO_TOKEN']}".encode()).decode()
    if request.lower().get("authorization") != f"Basic {login}":
        return 401, {"code": 20003, "message": "Authenticate", "status": 401}, None
    form = {name: values[0] for name, values in parse_qs(raw.decode()).items()}
    if not form.keys() >= {"From", "To", "Body"} or len(form["Body"]) > 1600:
        return 400, {"code": 21602, "message": "Message body is required", "status": 400}, None
    return 201, {"sid": "SM" + "1" * 32, "status": "queued", "error_code": None}, Arrival("twilio", form)


def _rc_token(request: _Handler, raw: bytes) -> Answer:
    form = {name: values[0] for name, values in parse_qs(raw.decode()).items()}
    login = base64.b64encode(f"{SECRETS['RC_ID']}:{SECRETS['RC_SECRET']}".encode()).decode()
    good = request.lower().get("authorization") == f"Basic {login}" and form.get("assertion") == SECRETS["RC_JWT"]
    if not good or form.get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer":
        return 400, {"error": "invalid_grant", "error_description": "Invalid assertion"}, None
    token = f"token-{len(request.server.rc_tokens)}"
    request.server.rc_tokens.add(token)
    return 200, {"access_token": token, "token_type": "bearer", "expires_in": 3600}, None


def _rc_sms(request: _Handler, raw: bytes) -> Answer:
    if request.lower().get("authorization", "").removeprefix("Bearer ") not in request.server.rc_tokens:
        return 401, {"errorCode": "TokenInvalid", "message": "Token not found"}, None
    body = json.loads(raw)
    if not body["from"]["phoneNumber"] or not body["to"] or len(body["text"]) > 1000:
        return 400, {"errorCode": "CMN-101", "message": "Parameter is invalid"}, None
    return 200, {"id": 1, "messageStatus": "Queued", "direction": "Outbound"}, Arrival("ringcentral", body)


def _apprise(request: _Handler, raw: bytes) -> Answer:
    return 200, {}, Arrival("apprise", json.loads(raw))


_ROUTES: dict[str, tuple[str, Callable[[_Handler, bytes], Answer]]] = {
    "/hook": ("webhook", _hook),
    "/services/": ("slack", _slack),
    "/v2/enqueue": ("pagerduty", _pagerduty),
    f"/2010-04-01/Accounts/{SECRETS['TWILIO_SID']}/Messages.json": ("twilio", _twilio),
    "/restapi/oauth/token": ("ringcentral token", _rc_token),
    "/restapi/v1.0/account/~/extension/~/sms": ("ringcentral", _rc_sms),
    "/apprise": ("apprise", _apprise),
    "/apprise/": ("apprise", _apprise),
    "/": ("ntfy", _ntfy),
}


class Mailbox:
    """An SMTP server. Faults: a 4yz or 5yz code, "hang", "lost" (taken, then cut off), "drop"."""

    def __init__(self, fault: Faults = _no_fault) -> None:
        self.mails: list[Any] = []
        self.faults: dict[str, int] = {}
        self._fault = fault
        with socket.socket() as probe:  # the controller wants to be told the port
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self._controller = Controller(self, hostname="127.0.0.1", port=self.port)
        self._controller.start()

    def close(self) -> None:
        self._controller.stop()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        """aiosmtpd calls it with the whole mail."""
        fault = self._fault("email")
        if fault is not None:
            self.faults[f"email {fault}"] = self.faults.get(f"email {fault}", 0) + 1
        if isinstance(fault, int):
            return f"{451 if fault in (429, 500) else fault} try again"  # as HTTP's: come again
        if fault == "drop":
            server.transport.abort()
            return "421 gone"
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))
        if fault == "hang":
            await asyncio.sleep(HANG_S)
        elif fault == "lost":
            server.transport.abort()
        return "250 OK"
