"""What the clients process sees: servers by file and settings, stores, plugins; absence and nonsense included."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.clients import rc_servers
from actors.clients.discovery import Places, describe, plugins, sweep
from actors.clients.probe import MAX_BYTES, is_loopback, probe
from actors.clients.requests import Server, Sighted
from actors.store.records import SensorRecord

HEALTHY = {"healthy": True, "version": "1.18.33"}
URL = "http://127.0.0.1:4096"


@pytest.mark.parametrize(
    ("value", "urls"),
    [
        ([], ()),
        ({}, ()),
        ({"ses_1": {"serverUrl": "http://127.0.0.1:1/"}}, ("http://127.0.0.1:1",)),
        (
            [{"serverUrl": "http://127.0.0.1:1"}, {"serverUrl": "http://127.0.0.1:2"}],
            ("http://127.0.0.1:1", "http://127.0.0.1:2"),
        ),
        ({"servers": {"a": {"serverUrl": "u"}, "b": {"serverUrl": "u"}}}, ("u",)),
    ],
)
def test_rc_servers_known_shapes_give_urls(value: object, urls: tuple[str, ...]) -> None:
    assert rc_servers.parse(json.dumps(value).encode(), "f") == rc_servers.Found(urls)


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b'{"a": 1}', b"[1, 2]", b'"x"', b"[" * 100_000])
def test_rc_servers_unknown_shape_is_blind_and_names_the_file(text: bytes) -> None:
    found = rc_servers.parse(text, "/x/rc-servers.json")
    assert found.urls == ()
    assert found.blind.startswith("/x/rc-servers.json ")


@given(st.binary(max_size=200))
def test_rc_servers_any_bytes_never_raise(text: bytes) -> None:
    assert isinstance(rc_servers.parse(text, "f"), rc_servers.Found)


def test_rc_servers_missing_file_is_absent(tmp_path: Path) -> None:
    assert rc_servers.read(tmp_path / "no") == rc_servers.Found(absent=True)


def test_rc_servers_directory_or_huge_file_is_blind(tmp_path: Path) -> None:
    assert "is no file" in rc_servers.read(tmp_path).blind
    huge = tmp_path / "huge"
    huge.write_bytes(b" " * (rc_servers.MAX_BYTES + 1))
    assert "larger than" in rc_servers.read(huge).blind


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("0.0.0.0", False),
        ("10.0.0.1", False),
        ("localhost.example.org", False),
        ("", False),
    ],
)
def test_is_loopback_table(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


def ask(
    answer: Callable[[httpx.Request], httpx.Response], url: str = URL, password: str = ""
) -> tuple[Server, str, list[httpx.Request]]:
    seen: list[httpx.Request] = []

    def record(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answer(request)

    async def run() -> tuple[Server, str]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(record)) as client:
            return await probe(client, url, "test", password)

    return *asyncio.run(run()), seen


def test_probe_healthy_server_gives_version() -> None:
    server, blind, seen = ask(lambda _: httpx.Response(200, json=HEALTHY))
    assert (server.ok, server.version, blind) == (True, "1.18.33", "")
    assert [request.url.path for request in seen] == ["/global/health"]


def test_probe_base_path_is_kept() -> None:
    _, _, seen = ask(lambda _: httpx.Response(200, json=HEALTHY), url=f"{URL}/base/")
    assert seen[0].url.path == "/base/global/health"


@pytest.mark.parametrize(
    "response",
    [
        httpx.Response(404, json=HEALTHY),
        httpx.Response(200, text="<html>"),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"ok": True}),
        httpx.Response(302, headers={"location": "http://10.0.0.1/"}),
        httpx.Response(200, content=b"x" * (MAX_BYTES * 2)),
    ],
)
def test_probe_unknown_answer_is_blind(response: httpx.Response) -> None:
    server, blind, seen = ask(lambda _: response)
    assert not server.ok
    assert "not as opencode does" in blind
    assert len(seen) == 1


def test_probe_nobody_there_is_no_blindness() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    server, blind, _ = ask(refuse)
    assert (server.ok, blind) == (False, "")
    assert server.detail == "does not answer: refused"


@pytest.mark.parametrize("url", ["http://10.0.0.1:1", "ftp://127.0.0.1", "nonsense", "http://[", "http://example.org"])
def test_probe_foreign_or_broken_url_is_not_asked(url: str) -> None:
    server, blind, seen = ask(lambda _: httpx.Response(200, json=HEALTHY), url=url)
    assert not server.ok
    assert blind
    assert seen == []


def guarded(request: httpx.Request) -> httpx.Response:
    good = httpx.BasicAuth("opencode", "pw")
    (wanted,) = {
        value
        for key, value in next(good.auth_flow(httpx.Request("GET", URL))).headers.items()
        if key == "authorization"
    }
    return httpx.Response(200, json=HEALTHY) if request.headers.get("authorization") == wanted else httpx.Response(401)


def test_probe_password_is_sent_only_when_asked_for() -> None:
    server, _, seen = ask(guarded, password="pw")
    assert server.ok
    assert ["authorization" in request.headers for request in seen] == [False, True]
    _, _, seen = ask(lambda _: httpx.Response(200, json=HEALTHY), password="pw")
    assert ["authorization" in request.headers for request in seen] == [False]


@pytest.mark.parametrize("password", ["", "wrong"])
def test_probe_without_right_password_is_blind(password: str) -> None:
    server, blind, _ = ask(guarded, password=password)
    assert not server.ok
    assert "OPENCODE_SERVER_PASSWORD" in blind


def places(home: Path) -> Places:
    return Places.of({}, home)


def look(home: Path, urls: tuple[str, ...] = (), response: httpx.Response | None = None) -> Sighted:
    async def run() -> Sighted:
        transport = httpx.MockTransport(lambda _: response or httpx.Response(200, json=HEALTHY))
        async with httpx.AsyncClient(transport=transport) as client:
            return await sweep(places(home), urls, client)

    return asyncio.run(run())


def test_sweep_empty_machine_says_what_is_absent(tmp_path: Path) -> None:
    seen = look(tmp_path)
    assert seen == Sighted()
    line = describe(seen, places(tmp_path))
    assert "no opencode server" in line
    assert "rc-servers.json" in line
    assert "stores: none" in line
    assert "plugins: none has reported" in line


def test_sweep_full_machine_sees_all_sources(tmp_path: Path) -> None:
    where = places(tmp_path)
    where.opencode.mkdir(parents=True)
    (where.opencode / "opencode.db").touch()
    where.claude_code.mkdir(parents=True)
    where.codex.mkdir(parents=True)
    (where.opencode / "rc-servers.json").write_text(json.dumps({"x": {"serverUrl": URL}}))
    seen = look(tmp_path, ("http://127.0.0.1:5000", URL))
    assert [(server.url, server.ok, server.source) for server in seen.servers] == [
        (URL, True, "clients.opencode.urls"),
        ("http://127.0.0.1:5000", True, "clients.opencode.urls"),
    ]
    assert [store.kind for store in seen.stores] == ["opencode", "claude_code", "codex"]
    assert "opencode 1.18.33 at http://127.0.0.1:4096" in describe(seen, where)


def test_sweep_malformed_registry_is_blind_and_the_rest_is_seen(tmp_path: Path) -> None:
    where = places(tmp_path)
    where.opencode.mkdir(parents=True)
    (where.opencode / "rc-servers.json").write_text("{torn")
    seen = look(tmp_path, (URL,))
    assert seen.servers[0].ok
    assert len(seen.blind) == 1
    assert "is not JSON" in seen.blind[0]


def test_places_follow_the_clients_variables(tmp_path: Path) -> None:
    given_places = Places.of(
        {"XDG_DATA_HOME": "/d", "CLAUDE_CONFIG_DIR": "/c", "CODEX_HOME": "/x", "OPENCODE_SERVER_PASSWORD": "p"},
        tmp_path,
    )
    assert given_places == Places(Path("/d/opencode"), Path("/c/projects"), Path("/x/sessions"), "p")


def test_plugins_other_version_is_stale_and_other_sensors_are_left_out() -> None:
    rows = [
        SensorRecord("opencode-plugin", "0.1.0", 5.0),
        SensorRecord("plugin", "0.0.9", 6.0),
        SensorRecord("replay", "1", 7.0),
    ]
    found = plugins(rows, "0.1.0")
    assert [(plugin.source, plugin.stale) for plugin in found] == [("opencode-plugin", False), ("plugin", True)]
