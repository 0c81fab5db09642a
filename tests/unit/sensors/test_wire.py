"""The wire parser: bodies, headers, aliases and per-item errors."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.messages import Kind, ProgressEvent, Tokens
from actors.sensors.identity import ALIASES, CONVERSATION_HEADERS, PARENT_HEADERS, Identity, identity_of, slug
from actors.sensors.wire import Foreign, Malformed, Parsed, Receipt, TooMany, parse

NOW = 1_700_000_000.0


def parsed(body: Any, content_type: str = "application/json", **headers: str) -> Parsed:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    count = itertools.count()
    return parse(raw, content_type, Receipt(identity_of(named), NOW, lambda: f"~{next(count)}"))


def test_object_minimal_is_a_tool_event_stamped_with_receipt() -> None:
    result = parsed({"session_id": "s1", "tool": "read"})
    assert result.errors == []
    assert result.events == [ProgressEvent(id="~0", t=NOW, session_id="s1", tool="read")]
    assert result.assigned == {"~0"}


def test_object_with_id_and_time_keeps_both() -> None:
    result = parsed({"session_id": "s1", "id": "e1", "t": 5.5})
    assert (result.events[0].id, result.events[0].t) == ("e1", 5.5)
    assert result.assigned == set()


@pytest.mark.parametrize(
    ("content_type", "body", "count"),
    [
        ("application/json", b'{"session_id": "a"}', 1),
        ("application/json; charset=utf-8", b'[{"session_id": "a"}, {"session_id": "b"}]', 2),
        ("application/json", b"[]", 0),
        ("application/x-ndjson", b'{"session_id": "a"}\n\r\n{"session_id": "b"}\n', 2),
        ("application/x-ndjson", b"", 0),
        ("", b'{"session_id": "a"}', 1),
        ("", b'{"session_id": "a"}\n{"session_id": "b"}', 2),
        ("text/plain", b'\n{"session_id": "a"}\n{"session_id": "b"}\n', 2),
        ("application/json", b'{"session_id": "a"}\n{"session_id": "b"}', 2),
        ("", b'{\n"session_id":\n"a"}', 1),
    ],
)
def test_body_forms_give_their_items(content_type: str, body: bytes, count: int) -> None:
    result = parsed(body, content_type)
    assert (result.items, len(result.events), result.errors) == (count, count, [])


@pytest.mark.parametrize("body", [b"", b"{", b"[1,", b"\xff\xfe", b'{"t": NaN}', b"[" * 100_000, b"a\nb"])
def test_body_not_json_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed, match="the body is not JSON"):
        parsed(body)


@pytest.mark.parametrize("content_type", ["text/html", "multipart/form-data", "application/xml"])
def test_content_type_foreign_is_refused_with_the_allowed_ones(content_type: str) -> None:
    with pytest.raises(Foreign, match=r"allowed: application/json, .*ndjson"):
        parsed({"session_id": "a"}, content_type)


def test_array_over_the_limit_is_too_many() -> None:
    assert parsed([{"session_id": "a"}] * 1000).items == 1000
    with pytest.raises(TooMany, match="1001 events in one request; allowed: up to 1000"):
        parsed([{"session_id": "a"}] * 1001)


@pytest.mark.parametrize(("alias", "name"), sorted(ALIASES.items()))
def test_alias_stands_for_its_field(alias: str, name: str) -> None:
    value: object = 7 if name in ("t", "exit", "cost_usd", "context_tokens") else "x1"
    base = {} if name == "session_id" else {"session_id": "s"}
    result = parsed({**base, alias: value})
    assert (result.errors, result.ignored_fields) == ([], {})
    assert getattr(result.events[0], name) == value


def test_alias_beside_its_field_loses_and_is_counted() -> None:
    for item in ({"session_id": "a", "session": "b"}, {"session": "b", "session_id": "a"}):
        result = parsed(item)
        assert (result.events[0].session_id, result.ignored_fields) == ("a", {"session": 1})


def test_field_unknown_is_ignored_and_counted() -> None:
    result = parsed([{"session_id": "a", "args": "secret"}, {"session_id": "a", "args": "x", "z": 1}])
    assert (len(result.events), result.ignored_fields) == (2, {"args": 2, "z": 1})


def test_field_names_unknown_without_end_stay_bounded() -> None:
    result = parsed([{"session_id": "a", **{f"f{n}-{k}": 1 for k in range(50)}} for n in range(50)])
    assert len(result.ignored_fields) == 101
    assert sum(result.ignored_fields.values()) == 2500


def test_field_null_is_the_same_as_absent() -> None:
    result = parsed({"session_id": "a", "exit": None, "kind": None, "landed": None, "id": None, "t": None})
    assert result.errors == []
    assert (result.events[0].kind, result.events[0].landed, result.events[0].t) == (Kind.TOOL, False, NOW)


@pytest.mark.parametrize("name", CONVERSATION_HEADERS)
def test_conversation_header_names_the_conversation(name: bytes) -> None:
    assert identity_of({name: b"c:s9"}).conversation == "s9"


@pytest.mark.parametrize("name", PARENT_HEADERS)
def test_parent_header_names_the_parent(name: bytes) -> None:
    assert identity_of({name: b"p9"}).parent == "p9"


def test_conversation_header_canonical_wins_over_aliases() -> None:
    headers = dict(zip(CONVERSATION_HEADERS, (b"one", b"two", b"three", b"four"), strict=True))
    assert identity_of(headers).conversation == "one"


def test_headers_fill_only_events_of_their_conversation() -> None:
    result = parsed(
        [{"tool": "a"}, {"session_id": "other"}, {"session_id": "c:s1", "agent": "Own Agent"}],
        x_router_conversation="s1",
        x_router_parent="c:root",
        x_router_agent="Sisyphus (Ultra)",
        x_treewarden_sensor="plugin/1.2.3",
    )
    seen = [(e.session_id, e.parent_session_id, e.agent, e.source) for e in result.events]
    assert seen == [
        ("s1", "root", "sisyphus-ultra", "plugin/1.2.3"),
        ("other", None, None, "plugin/1.2.3"),
        ("s1", "root", "own-agent", "plugin/1.2.3"),
    ]


def test_parent_equal_to_the_conversation_is_a_root() -> None:
    assert parsed({"session_id": "c:a", "parent": "a"}).events[0].parent_session_id is None


@pytest.mark.parametrize(
    ("name", "folded"),
    [
        ("Explore", "explore"),
        ("  Sisyphus (Ultra Worker) ", "sisyphus-ultra-worker"),
        ("OpenCode-Builder", "opencode-builder"),
        ("a/b\\c", "a-b-c"),
        ("()", None),
        ("", None),
        (None, None),
    ],
)
def test_slug_folds_agent_names(name: str | None, folded: str | None) -> None:
    assert slug(name) == folded


@pytest.mark.parametrize(
    ("item", "field", "value", "allowed"),
    [
        ({}, "session_id", "", "X-Router-Conversation"),
        ({"session_id": ""}, "session_id", "", "1 to 200"),
        ({"session_id": 5}, "session_id", "5", "1 to 200"),
        ({"session_id": "x" * 201}, "session_id", "x" * 77 + "...", "1 to 200"),
        ({"session_id": "a\nb"}, "session_id", "a?b", "no control characters"),
        ({"session_id": "a", "kind": "tol"}, "kind", "tol", "'tool', 'turn'"),
        ({"session_id": "a", "error": "boom"}, "error", "boom", "'infra', 'denied'"),
        ({"session_id": "a", "v": 2}, "v", "2", "1"),
        ({"session_id": "a", "landed": "yes"}, "landed", "yes", "true, false"),
        ({"session_id": "a", "exit": "x"}, "exit", "x", "int"),
        ({"session_id": "a", "cost_usd": -1}, "cost_usd", "-1", "at least 0"),
        ({"session_id": "a", "tokens": {"prompt": -1}}, "tokens", "-1", "an integer >= 0"),
        ({"session_id": "a", "tokens": [1]}, "tokens", "an array", "an integer >= 0"),
        ({"session_id": "a", "t": 1_700_000_000_000}, "t", "1700000000000", "epoch seconds"),
        ({"session_id": "a", "tokens": 10**12}, "tokens", "1000000000000", "at most 1000000000"),
        ({"session_id": "a", "target": "y" * 401}, "target", "y" * 77 + "...", "up to 400 characters"),
        (7, "", "7", "a JSON object"),
        (None, "", "null", "a JSON object"),
        ([], "", "an array", "a JSON object"),
        ("hello", "", "hello", "a JSON object"),
    ],
)
def test_item_invalid_names_field_value_and_allowed(item: Any, field: str, value: str, allowed: str) -> None:
    result = parsed([{"session_id": "good"}, item])
    assert len(result.events) == 1
    assert result.rejected == 1
    (error,) = result.errors
    assert (error.index, error.field, error.value) == (1, field, value)
    assert allowed in error.allowed
    assert error.message


def test_line_not_json_is_an_error_of_its_own() -> None:
    result = parsed(b'{"session_id": "a"}\n{oops\n{"session_id": "b"}', "application/x-ndjson")
    assert result.indexes == [0, 2]
    assert [(e.index, e.value) for e in result.errors] == [(1, "{oops")]


def test_tokens_of_both_forms_are_kept() -> None:
    result = parsed([{"session_id": "a", "tokens": 7}, {"session_id": "a", "tokens": {"prompt": 3}}])
    assert [event.tokens for event in result.events] == [7, Tokens(prompt=3)]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from([*ProgressEvent.model_fields, *ALIASES, "x"]), inner, max_size=6)
    ),
    max_leaves=20,
)


@given(JSON)
def test_any_json_every_item_is_an_event_or_an_error(value: Any) -> None:
    try:
        result = parsed(json.dumps(value).encode())
    except Malformed:
        return  # lone surrogates and infinities are not JSON for the parser
    refused = {error.index for error in result.errors}
    assert refused.isdisjoint(result.indexes)
    assert len(refused) + len(result.events) == result.items
    assert all(len(error.value) <= 80 for error in result.errors)


@given(st.binary(max_size=200), st.sampled_from(["", "application/json", "application/x-ndjson"]))
def test_any_bytes_parse_or_are_malformed(body: bytes, content_type: str) -> None:
    try:
        result = parsed(body, content_type)
    except Malformed:
        return
    assert result.rejected + len(result.events) == result.items


def test_identity_empty_is_the_default() -> None:
    assert identity_of({}) == Identity()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("t", "1e300"),
        ("t", "4102444801"),
        ("t", " 99999999999999 "),
        ("cost_usd", "1e300"),
        ("exit", "9" * 40),
        ("context_tokens", "9" * 400),
        ("tokens", "9" * 40),
        ("tokens", {"prompt": "9" * 40}),
    ],
)
def test_number_too_large_in_a_string_is_refused_like_the_number(name: str, value: object) -> None:
    """Validation reads numbers out of strings; one event with t of 1e300 stopped the clock of its tree for ever."""
    result = parsed({"session_id": "a", name: value})
    assert [(error.field, error.message) for error in result.errors] == [(name, "the value is too large")]
    assert result.events == []
