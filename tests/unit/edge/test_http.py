"""Every status of the edge's routes, over real loopback HTTP."""

from __future__ import annotations

import contextlib
import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from actors.edge.api.routes import ENTRIES
from actors.edge.auth import Scope
from actors.edge.guard import GRANTS
from actors.messages import ProgressEvent
from actors.sensors.identity import ALIASES
from tests.unit.edge.world import World, world_in_thread

GOOD = {"session_id": "s1", "tool": "read"}
HTTP = httpx.Client(timeout=20)
COUNTS = ("accepted", "duplicates", "quarantined", "rejected")


@pytest.fixture(scope="module")
def daemon() -> Iterator[World]:
    with world_in_thread() as made:
        yield made


def request(
    daemon: World, method: str, path: str, *, scope: Scope | None = Scope.OPERATOR, **options: Any
) -> httpx.Response:
    headers = {"authorization": f"Bearer {daemon.token(scope)}"} if scope else {}
    headers |= options.pop("headers", {})
    return HTTP.request(method, daemon.url + path, headers=headers, **options)


def post(daemon: World, body: Any, *, path: str = "/v1/progress", **options: Any) -> httpx.Response:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json"} | options.pop("headers", {})
    scope = options.pop("scope", Scope.SENSOR)
    return request(daemon, "POST", path, scope=scope, content=raw, headers=headers, **options)


@pytest.mark.parametrize(
    ("body", "headers", "scope", "status", "code"),
    [
        (GOOD, {}, Scope.SENSOR, 202, None),
        (GOOD, {}, Scope.ROUTER, 202, None),
        (GOOD, {}, Scope.OPERATOR, 202, None),
        ([], {}, Scope.SENSOR, 202, None),
        ([GOOD, {"tool": "x"}], {}, Scope.SENSOR, 202, None),
        (b"{}\n{oops", {"content-type": "application/x-ndjson", "x-session-id": "a"}, Scope.SENSOR, 202, None),
        ({"tool": "x"}, {}, Scope.SENSOR, 400, "invalid"),
        (b"{", {}, Scope.SENSOR, 400, "malformed"),
        (b"", {}, Scope.SENSOR, 400, "malformed"),
        (GOOD, {}, None, 401, "unauthorized"),
        (GOOD, {"authorization": "Bearer nonsense"}, None, 401, "unauthorized"),
        (GOOD, {"authorization": "Bearer"}, None, 401, "unauthorized"),
        (GOOD, {"authorization": "Basic abc"}, None, 401, "unauthorized"),
        ([GOOD] * 1001, {}, Scope.SENSOR, 413, "too_many"),
        (b" " * 1_048_577, {}, Scope.SENSOR, 413, "too_large"),
        (GOOD, {"content-type": "text/html"}, Scope.SENSOR, 415, "unsupported_media_type"),
        (GOOD, {"host": "evil.example"}, Scope.SENSOR, 421, "foreign_host"),
    ],
)  # fmt: skip
def test_progress_answers_with_status(
    daemon: World, body: Any, headers: dict[str, str], scope: Scope | None, status: int, code: str | None
) -> None:
    answer = post(daemon, body, headers=headers, scope=scope)
    assert answer.status_code == status, answer.text
    assert answer.json().get("error", {}).get("code") == code


@pytest.mark.parametrize("line", [b"X: ", b"", b"GET /"])
def test_head_that_never_ends_is_cut_off(daemon: World, line: bytes) -> None:
    """Nobody has shown a token yet: one header of 300 MiB held up the loop for everybody."""
    start = b"" if line == b"GET /" else b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    more = b"a" * 8192 if line else b"A: b\r\n" * 1024
    with socket.create_connection(("127.0.0.1", httpx.URL(daemon.url).port or 0), timeout=10) as sent:
        answer = b""
        sent.sendall(start + line)
        with contextlib.suppress(ConnectionError):
            for _ in range(128):
                sent.sendall(more)
            answer = sent.recv(100)
    assert answer.startswith(b"HTTP/1.1 431") or not answer  # a reset may overtake the answer
    assert request(daemon, "GET", "/healthz", scope=None).status_code == 200


def test_connection_serves_again_after_a_large_body_and_a_long_head(daemon: World) -> None:
    with httpx.Client(timeout=20) as one:
        for size in (10, 900_000, 10):
            body = json.dumps({**GOOD, "ignored": "x" * size}).encode()
            headers = {"authorization": f"Bearer {daemon.token(Scope.SENSOR)}", "x-long": "y" * 60_000}
            assert one.post(daemon.url + "/v1/progress", content=body, headers=headers).status_code == 202


def test_progress_old_path_and_header_name_are_served(daemon: World) -> None:
    answer = post(daemon, {"tool": "x"}, path="/progress", headers={"X-Opencode-Session": "c:old"})
    assert (answer.status_code, answer.json()["accepted"]) == (202, 1)


def test_progress_body_chunked_over_the_limit_is_refused(daemon: World) -> None:
    answer = request(daemon, "POST", "/v1/progress", content=iter([b" " * 600_000] * 2))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


def test_progress_mixed_counts_every_item_and_names_errors(daemon: World) -> None:
    first = {"session_id": "mix", "id": "e1", "extra": 1}
    answer = post(daemon, [first, first, {"session_id": "mix", "kind": "tol"}, 7]).json()
    assert [answer[name] for name in COUNTS] == [1, 1, 0, 2]
    assert answer["ignored_fields"] == {"extra": 2}
    assert [(error["index"], error["field"], error["value"]) for error in answer["errors"]] == [
        (2, "kind", "tol"),
        (3, "", "7"),
    ]


def test_progress_all_invalid_says_the_same_with_400(daemon: World) -> None:
    answer = post(daemon, [{}, {"session_id": ""}]).json()
    assert [answer[name] for name in COUNTS] == [0, 0, 0, 2]
    assert answer["error"]["field"] == "session_id"
    assert len(answer["errors"]) == 2


def test_progress_repeated_without_id_is_not_a_duplicate(daemon: World) -> None:
    answer = post(daemon, [{"session_id": "noid", "tool": "x"}] * 3).json()
    assert (answer["accepted"], answer["duplicates"]) == (3, 0)


@pytest.mark.parametrize("path", ["/v1/progress", "/progress", "/v1/admission"])
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_hot_route_other_method_is_405(daemon: World, path: str, method: str) -> None:
    answer = request(daemon, method, path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "method_not_allowed")


@pytest.mark.parametrize(
    ("body", "headers", "scope", "status", "field"),
    [
        ({"conversation": "a"}, {}, Scope.ROUTER, 200, None),
        ({"conversation": "c:a", "agent": "x", "model": "m", "prompt_tokens": 5}, {}, Scope.OPERATOR, 200, None),
        ({"session_id": "a", "new_field": 1}, {}, Scope.ROUTER, 200, None),
        (b"", {"x-router-conversation": "a"}, Scope.ROUTER, 200, None),
        ({}, {}, Scope.ROUTER, 400, "conversation"),
        ({"conversation": 5}, {}, Scope.ROUTER, 400, "conversation"),
        ({"conversation": "a", "prompt_tokens": -1}, {}, Scope.ROUTER, 400, "prompt_tokens"),
        ([], {}, Scope.ROUTER, 400, None),
        (b"{", {}, Scope.ROUTER, 400, None),
        ({"conversation": "a"}, {}, Scope.SENSOR, 403, None),
        ({"conversation": "a"}, {}, None, 401, None),
        ({"conversation": "a", "model": "m" * 70_000}, {}, Scope.ROUTER, 413, None),
    ],
)
def test_admission_answers_with_status(
    daemon: World, body: Any, headers: dict[str, str], scope: Scope | None, status: int, field: str | None
) -> None:
    answer = post(daemon, body, path="/v1/admission", headers=headers, scope=scope)
    assert answer.status_code == status, answer.text
    assert answer.json().get("error", {}).get("field") == field
    if status == 200:
        assert answer.json() == {
            "decision": "allow", "skip_models": [], "tree": "a", "verdict": "ok", "reason": "none", "mode": "warn",
            "stage": "none",
        }  # fmt: skip


def test_api_routes_serve_only_the_granted_scopes(daemon: World) -> None:
    for entry in ENTRIES:
        path = entry.path.replace("{id:path}", "nope")
        for scope in (None, *Scope):
            status = request(daemon, entry.method, path, scope=scope).status_code
            allowed = entry.scope is None or (scope is not None and scope in GRANTS[entry.scope])
            refused = 401 if scope is None else 403
            assert (status in (200, 404, 503)) if allowed else (status == refused), (entry.path, scope, status)


@pytest.mark.parametrize("header", ["origin", "referer"])
def test_operator_route_from_a_page_is_refused(daemon: World, header: str) -> None:
    answer = request(daemon, "GET", "/v1/trees", headers={header: "http://127.0.0.1"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "foreign_origin")


@pytest.mark.parametrize("path", ["/healthz", "/metrics", "/v1/trees", "/v1/progress"])
def test_any_route_foreign_host_is_421(daemon: World, path: str) -> None:
    answer = request(daemon, "GET" if path != "/v1/progress" else "POST", path, headers={"host": "a.b:7717"})
    assert answer.status_code == 421


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]:7717", "LOCALHOST:80"])
def test_any_route_loopback_host_is_served(daemon: World, host: str) -> None:
    assert request(daemon, "GET", "/healthz", scope=None, headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/trees?limit=0", "limit"),
        ("/v1/trees?limit=x", "limit"),
        ("/v1/trees?limit=%C2%B2", "limit"),
        ("/v1/trees?verdict=bad", "verdict"),
        ("/v1/trees?verdikt=ok", "verdikt"),
        ("/v1/alerts?limit=501", "limit"),
    ],
)
def test_api_parameter_wrong_is_named_with_the_allowed(daemon: World, path: str, field: str) -> None:
    answer = request(daemon, "GET", path)
    error = answer.json()["error"]
    assert (answer.status_code, error["field"]) == (400, field)
    assert error["allowed"]


@pytest.mark.parametrize(("path", "status"), [("/v1/nothing", 404), ("/", 404), ("/v1/trees/none", 404)])
def test_api_unknown_has_the_one_error_shape(daemon: World, path: str, status: int) -> None:
    answer = request(daemon, "GET", path)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, "not_found")


def test_health_ok_names_version_without_a_token(daemon: World) -> None:
    answer = request(daemon, "GET", "/healthz", scope=None)
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")
    assert answer.json()["version"]


def test_openapi_holds_every_route_and_resolves_every_reference(daemon: World) -> None:
    document = request(daemon, "GET", "/v1/openapi.json").json()
    assert set(document["paths"]) == {e.path.replace(":path", "") for e in ENTRIES} | {"/v1/progress", "/v1/admission"}
    text = json.dumps(document)
    for name in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert name in document["components"]["schemas"]


def test_metrics_count_items_and_never_name_a_session(daemon: World) -> None:
    post(daemon, [{"session_id": "secret-session"}, {"session_id": "a", "kind": "secret-kind"}])
    text = request(daemon, "GET", "/metrics", scope=Scope.ROUTER).text
    assert 'treewarden_events_total{result="accepted"}' in text
    assert 'treewarden_ingest_errors_total{field="kind"}' in text
    assert 'treewarden_trees{state="ok"}' in text
    assert 'treewarden_request_seconds_bucket{le="0.0005",route="/v1/progress",status="202"}' in text
    assert "secret" not in text


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*ProgressEvent.model_fields, *ALIASES, "x"]), inner, max_size=6)
        | st.fixed_dictionaries({"session_id": st.sampled_from("abc")}, optional={"parent": st.sampled_from("abc")})
    ),
    max_leaves=20,
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON)
def test_any_json_never_500_never_a_silent_drop(daemon: World, value: Any) -> None:
    answer = post(daemon, value)
    assert answer.status_code in (202, 400), answer.text
    body = answer.json()
    if body.get("error", {}).get("code") == "malformed":
        return
    items = len(value) if isinstance(value, list) else 1
    assert sum(body[name] for name in COUNTS) == items
    assert len({error["index"] for error in body["errors"]}) == body["rejected"]


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.sampled_from(["", "application/json", "application/x-ndjson", "text/plain"]))
def test_any_bytes_are_taken_or_refused(daemon: World, body: bytes, content_type: str) -> None:
    assert post(daemon, body, headers={"content-type": content_type}).status_code in (202, 400)
