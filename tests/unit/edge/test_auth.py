"""Tokens and sensor.json: made once, private, whole."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from actors.edge.auth import Scope, Tokens, load_tokens, token_file, write_sensor_file
from actors.edge.guard import host_name
from actors.edge.main import url_of


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_tokens_are_private_different_and_kept(tmp_path: Path) -> None:
    first = load_tokens(tmp_path)
    assert load_tokens(tmp_path) == first
    assert len(set(first.by_scope.values())) == 3
    assert [mode_of(token_file(tmp_path, scope)) for scope in Scope] == [0o600] * 3
    assert mode_of(tmp_path / "tokens") == 0o700
    assert sorted(path.name for path in (tmp_path / "tokens").iterdir()) == [
        "operator.token", "router.token", "sensor.token",
    ]  # fmt: skip


@pytest.mark.parametrize("content", ["", "short\n", "\n" * 50, "\u00e9" * 40])
def test_token_that_could_be_guessed_is_replaced(tmp_path: Path, content: str) -> None:
    load_tokens(tmp_path)
    token_file(tmp_path, Scope.SENSOR).write_text(content, "utf-8")
    assert len(load_tokens(tmp_path).by_scope[Scope.SENSOR]) > 40


def test_token_file_readable_by_others_is_closed(tmp_path: Path) -> None:
    first = load_tokens(tmp_path)
    token_file(tmp_path, Scope.OPERATOR).chmod(0o644)
    assert load_tokens(tmp_path) == first
    assert mode_of(token_file(tmp_path, Scope.OPERATOR)) == 0o600


def test_tokens_made_by_several_at_once_are_the_same(tmp_path: Path) -> None:
    found: list[Tokens] = []
    threads = [threading.Thread(target=lambda: found.append(load_tokens(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [found[0]] * 8


@pytest.mark.parametrize(
    "presented", ["", "x", "tw_", "\u00e9", "\ud800".encode("utf-8", "surrogatepass").decode("latin-1")]
)
def test_scope_of_a_wrong_token_is_none(tmp_path: Path, presented: str) -> None:
    assert load_tokens(tmp_path).scope_of(presented) is None


def test_scope_of_each_token_is_its_own(tmp_path: Path) -> None:
    tokens = load_tokens(tmp_path)
    assert {scope: tokens.scope_of(token) for scope, token in tokens.by_scope.items()} == {s: s for s in Scope}


def test_sensor_file_is_private_and_replaced_whole(tmp_path: Path) -> None:
    for port in (1, 2):
        path = write_sensor_file(tmp_path, f"http://127.0.0.1:{port}", "tok", "1.0")
    assert json.loads(path.read_text()) == {"url": "http://127.0.0.1:2", "token": "tok", "version": "1.0"}
    assert mode_of(path) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("127.0.0.1:7717", "127.0.0.1"),
        ("LocalHost", "localhost"),
        ("[::1]:7717", "::1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("127.0.0.1.evil.example:80", "127.0.0.1.evil.example"),
        ("", ""),
    ],
)
def test_host_name_loses_its_port(header: str, name: str) -> None:
    assert host_name(header) == name


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:5"),
        ("0.0.0.0", "http://127.0.0.1:5"),
        ("::", "http://127.0.0.1:5"),
        ("::1", "http://[::1]:5"),
    ],
)
def test_url_of_a_wildcard_is_loopback(host: str, url: str) -> None:
    assert url_of(host, 5) == url
