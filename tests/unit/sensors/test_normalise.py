"""The readers' rules agree with the opencode plugin's: both suites hold to the same vectors."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.sensors.normalise import Call, Session, Usage, clock
from actors.sensors.normalise_command import essential, may_write, owns_exit, shell_edit, simple_commands
from actors.sensors.normalise_digest import fingerprint, said_digests
from actors.sensors.normalise_landed import RedRuns, Selection, commit_made, covers, selection
from actors.sensors.normalise_outcome import error_class, masked, result_digest, shell_error
from actors.sensors.normalise_target import Targets, slice_of

ROOT = "/home/me/project"
FILE = Path(__file__).parents[3] / "deploy" / "opencode-plugin" / "test" / "vectors" / "normalise.json"
NOTHING = Selection("", (), ())
VECTORS: dict[str, list[Any]] = json.loads(FILE.read_text())


@pytest.mark.parametrize("vector", VECTORS["commands"], ids=lambda one: one["text"][:30])
def test_command_is_read_as_the_plugin_reads_it(vector: dict[str, Any]) -> None:
    text = vector["text"]
    found = simple_commands(text)

    assert [
        {
            "words": list(one.words),
            "before": one.before,
            "after": one.after,
            "cwd": one.cwd,
            "essential": essential(one.words),
            "owns": owns_exit(found, at),
        }
        for at, one in enumerate(found)
    ] == vector["simple"]
    assert may_write(text) is vector["mayWrite"]
    assert [commit_made(text, exit_, "[main abc1234] m") for exit_ in (0, 1, None)] == vector["commit"]
    assert commit_made(text, 0, "nothing") is vector["unsaid"]


@pytest.mark.parametrize("vector", VECTORS["calls"], ids=lambda one: str(one["args"])[:40])
def test_call_has_the_fingerprint_slice_and_target_of_the_plugin(vector: dict[str, Any]) -> None:
    tool, args = vector["tool"], vector["args"]

    assert fingerprint(tool, args) == vector["fingerprint"]
    assert slice_of(tool, args, ROOT) == vector["slice"]
    assert re.sub(r"h:\d+", "h:*", Targets(ROOT).of(tool, args)) == vector["target"]


@pytest.mark.parametrize("vector", VECTORS["outputs"], ids=lambda one: one["text"][:30])
def test_outcome_is_masked_as_the_plugin_masks_it(vector: dict[str, Any]) -> None:
    assert masked(vector["text"]) == vector["masked"]
    assert result_digest(vector["text"], 0) == vector["digest"]
    assert result_digest(vector["text"], None) == vector["unknown"]


def test_error_classes_are_those_of_the_plugin() -> None:
    assert [error_class(one["text"]) for one in VECTORS["errors"]] == [one["error"] for one in VECTORS["errors"]]
    shell = VECTORS["shell"]
    assert [shell_error(one["exit"], one["text"]) for one in shell] == [one["error"] for one in shell]


def test_said_digests_are_those_of_the_plugin() -> None:
    assert [{"text": one["text"], **said_digests(one["text"])} for one in VECTORS["said"]] == VECTORS["said"]


def test_selections_and_what_they_cover_are_those_of_the_plugin() -> None:
    chosen = {}
    for one in VECTORS["selections"]:
        last = simple_commands(one["text"])[-1]
        chosen[one["text"]] = selection(last.words, last.cwd)
        found = chosen[one["text"]]
        shown = (
            {} if found is None else {"tool": found.tool, "paths": list(found.paths), "filters": list(found.filters)}
        )
        assert {"text": one["text"], **(shown if found else {})} == one

    pairs = [[a, b] for a, one in chosen.items() for b, two in chosen.items() if one and two and covers(one, two)]
    assert pairs == VECTORS["covers"]


def test_red_to_green_stories_end_as_the_plugin_ends_them() -> None:
    for story in VECTORS["stories"]:
        runs = RedRuns()
        told = [runs.observe(one["command"], one["exit"], one["text"], one["edits"]) for one in story]
        assert told == [one["landed"] for one in story]


def test_targets_number_what_they_mask_and_two_readings_are_equal() -> None:
    commands = ["curl aaa", "curl bbb", "curl aaa"]

    def told() -> list[str]:
        targets = Targets(ROOT, "/home/me")
        return [targets.of("bash", {"command": one}) for one in commands]

    assert told() == told() == ["curl h:1", "curl h:2", "curl h:1"]
    assert Targets(ROOT, "/home/me").of("read", {"filePath": "/home/me/notes/b.txt"}) == "~/notes/b.txt"


def test_shell_edits_are_writes_to_files_that_are_kept() -> None:
    yes = [
        "sed -i s/a/b/ f.py",
        "cat > f.py <<'E'\nx\nE",
        "git apply p",
        "echo x | tee a",
        "python3 - <<'E' > out.json\nE",
    ]
    no = ["cat f", "ls > /dev/null", "echo x > /tmp/y", "rm -rf a", "pytest 2>&1", "mkdir a", "git apply --check p"]

    assert [shell_edit(one) for one in yes] == [True] * len(yes)
    assert [shell_edit(one) for one in no] == [False] * len(no)


def test_edit_repeated_or_undone_and_redone_lands_with_a_state_that_was_there() -> None:
    session = Session("s")
    there = Call("edit", {"filePath": "a", "oldString": "1", "newString": "2"})
    back = Call("edit", {"filePath": "a", "oldString": "2", "newString": "1"})
    for call in (there, there, back, there):
        session.call(call)

    assert [event.landed for event in session.events] == [True, False, True, True]
    assert session.events[0].state == session.events[3].state != session.events[2].state


def test_failed_call_has_class_and_digest_and_never_lands() -> None:
    session = Session("s")
    session.call(Call("edit", {"filePath": "a"}, failure="String to replace not found in file."))
    session.call(Call("bash", {"command": "sed -i s/a/b/ f"}, exit=1, shell_lands=True))

    assert [(one.exit, one.error, one.landed) for one in session.events] == [
        (1, "edit_mismatch", False),
        (1, None, False),
    ]


def test_usage_without_dollars_is_priced_from_the_list() -> None:
    session = Session("s")
    session.turn(1.0, "r", Usage(prompt=1_000_000, cached=800_000, completion=100_000, model="claude-sonnet-4-5"))
    session.turn(1.0, "r", Usage(prompt=10, model="nobody-knows"))
    session.turn(1.0, "r", Usage(prompt=10, usd=0.5, model="claude-sonnet-4-5"))

    assert [one.cost_usd for one in session.events] == [pytest.approx(0.6 + 0.24 + 1.5), None, 0.5]


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2026-12-01T03:56:05.386Z", 1796097365.386),
        (1796097365386, 1796097365.386),
        (1796097365, 1796097365.0),
        ("2026-12-01T03:56:05", 1796097365.0),
        ("yesterday", None),
        (-1, None),
        (float("nan"), None),
        (True, None),
        (None, None),
        (1e30, None),
    ],
)
def test_clock_reads_times_and_refuses_what_is_none(value: object, seconds: float | None) -> None:
    assert clock(value) == (None if seconds is None else pytest.approx(seconds))


def test_halves_of_surrogate_pairs_become_events() -> None:
    """JSON may escape them; UTF-8, and so the wire, cannot hold them."""
    half = json.loads('"\\ud800"')
    session = Session(half, half, half, half)
    session.call(Call(half, {half: half, "path": half}, half, call_id=half, round=half))
    session.call(Call("bash", {"command": f"echo {half}"}, half, 1, failure=half))
    session.turn(1.0, half, Usage(prompt=1, model=half, provider=half))
    session.said(1.0, half, half + "a")
    session.prompt(1.0, half)

    assert len(json.dumps([event.model_dump_json() for event in session.events]).encode()) > 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
SHELL = st.text(alphabet="ab /.-'\"\\;&|<>$(){}\n#=1 E", max_size=60)


@given(SHELL, st.text(max_size=40), st.sampled_from([0, 1, None]))
def test_shell_garbage_becomes_an_event(command: str, output: str, exit_: int | None) -> None:
    session = Session("s", root="/p", home="/h")
    session.call(Call("bash", {"command": command}, output=output, exit=exit_, shell_lands=True))

    assert len(session.events) == 1


@given(st.text(max_size=20), st.dictionaries(st.text(max_size=8), JSON, max_size=4), st.text(max_size=20))
def test_tool_garbage_becomes_an_event(tool: str, args: dict[str, Any], name: str) -> None:
    session = Session(name, parent=name, agent=name)
    session.call(Call(tool, args, call_id=name, round=name))
    session.prompt(None, name)

    assert len(session.events) == 2


N = 190_000
LONG = {
    "newlines": "\n" * N,
    "blanks": " " * N + "x",
    "blank lines": " \n" * (N // 2),
    "digits": "1" * N,
    "hex": "a1" * (N // 2),
    "versions": "1." * (N // 2),
    "quotes": "\"'" * (N // 2),
    "slashes": "/a" * (N // 2),
    "brackets": "[" * N,
}


@pytest.mark.parametrize("name", LONG)
def test_long_monotonous_texts_take_time_in_proportion(name: str) -> None:
    """A pattern that looks for the end of a run from each of its places takes minutes for the first of these."""
    text = LONG[name]
    session = Session("s", root="/p")
    started = time.process_time()
    session.call(Call("bash", {"command": text}, output=text, exit=1, shell_lands=True))
    session.call(Call("edit", {"filePath": text, "newString": text}, failure=text))
    session.said(None, None, text)

    assert time.process_time() - started < 5
    assert len(session.events) >= 2
