"""Reading wire-format JSON lines: both forms, gzipped, torn and foreign."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from actors.sensors.identity import Identity
from actors.sensors.readers.formats import FORMATS, read_file
from actors.sensors.readers.records import Problem, World
from actors.sensors.wire import Receipt, parse

EVENT = {"session_id": "s1", "fingerprint": "f", "exit": 0, "t": 1}
CONVERSATION = {"conversation": "c1", "source": "test", "label": "ok", "events": [EVENT, {**EVENT, "t": 2}]}


def written(directory: Path, *lines: object, name: str = "log.jsonl", cut: int = 0) -> Path:
    text = "".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in lines)
    path = directory / name
    packed = text.encode() if not name.endswith(".gz") else gzip.compress(text.encode())
    path.write_bytes(packed[: len(packed) - cut])
    return path


def problems(found: list[World | Problem]) -> list[str]:
    return [f"{one.where.rpartition('/')[2]}: {one.what}" for one in found if isinstance(one, Problem)]


def worlds(found: list[World | Problem]) -> list[World]:
    return [one for one in found if isinstance(one, World)]


@pytest.mark.parametrize("name", ["log.jsonl", "log.jsonl.gz", "no-suffix"])
def test_corpus_form_each_line_is_a_world(tmp_path: Path, name: str) -> None:
    found = worlds(list(read_file(written(tmp_path, CONVERSATION, "", CONVERSATION, name=name))))

    assert [(one.conversation, one.source, len(one.events)) for one in found] == [("c1", "test", 2)] * 2


def test_event_form_the_file_is_one_world(tmp_path: Path) -> None:
    found = list(read_file(written(tmp_path, EVENT, {**EVENT, "session_id": "s2", "source": "plugin"})))

    assert [(one.conversation, [each.session_id for each in one.events]) for one in worlds(found)] == [
        (None, ["s1", "s2"])
    ]
    assert problems(found) == []


def test_both_forms_in_one_file_are_read(tmp_path: Path) -> None:
    found = worlds(list(read_file(written(tmp_path, EVENT, CONVERSATION, EVENT))))

    assert [(one.conversation, len(one.events)) for one in found] == [("c1", 2), (None, 2)]


def test_many_lines_none_is_lost(tmp_path: Path) -> None:
    path = written(tmp_path, *({**CONVERSATION, "conversation": f"c{index}"} for index in range(100)))

    assert [one.conversation for one in worlds(list(read_file(path)))] == [f"c{index}" for index in range(100)]


def test_torn_and_foreign_lines_give_one_problem_each(tmp_path: Path) -> None:
    path = written(tmp_path, '{"session_id": "s1", "fing', EVENT, [1], {"no": 1}, "plain text", CONVERSATION)
    found = list(read_file(path))

    assert [line.split(" (")[0] for line in problems(found)] == [
        "log.jsonl:1: not a whole JSON line",
        "log.jsonl:3: neither an event",
        "log.jsonl:4: neither an event",
        "log.jsonl:5: not a whole JSON line",
    ]
    assert len(worlds(found)) == 2


def test_invalid_event_names_field_value_and_what_is_allowed(tmp_path: Path) -> None:
    broken = {**CONVERSATION, "events": [EVENT, {**EVENT, "kind": "dance"}, {"t": 1}, "x"]}
    found = list(read_file(written(tmp_path, broken, {**EVENT, "cost_usd": -1})))
    said = problems(found)

    assert said[0].startswith("log.jsonl:1 event 1: kind = 'dance': Input should be 'tool', 'turn'")
    assert said[1].startswith("log.jsonl:1 event 2: session_id")
    assert said[2].startswith("log.jsonl:1 event 3: event = 'x'")
    assert said[3] == "log.jsonl:2: cost_usd = '-1': Input should be greater than or equal to 0"
    assert [len(one.events) for one in worlds(found)] == [1]


def test_truncated_gzip_what_was_whole_is_read(tmp_path: Path) -> None:
    lines = [{**CONVERSATION, "conversation": f"c{index}", "why": str(hash(index * 7919))} for index in range(3000)]
    found = list(read_file(written(tmp_path, *lines, name="log.jsonl.gz", cut=2000)))

    assert len(worlds(found)) > 100
    assert len(problems(found)) <= 2
    assert "cannot be read to its end" in problems(found)[-1]


def test_foreign_file_names_what_is_allowed(tmp_path: Path) -> None:
    path = written(tmp_path, "a letter", "to a friend", name="letter.txt")

    assert problems(list(read_file(path))) == [f"letter.txt: no known format, allowed: {', '.join(FORMATS)}"]


def test_torn_first_line_does_not_hide_the_format(tmp_path: Path) -> None:
    assert len(worlds(list(read_file(written(tmp_path, '"}]}', EVENT))))) == 1


def test_format_given_is_used_without_a_look(tmp_path: Path) -> None:
    assert problems(list(read_file(written(tmp_path, "x"), "wire")))[0].startswith("log.jsonl:1: not a whole JSON line")


def test_bytes_that_are_no_text_stop_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"\xff\xfe\n" + json.dumps(EVENT).encode() + b"\n")

    assert len(worlds(list(read_file(path)))) == 1


def test_file_that_is_gone_is_a_problem(tmp_path: Path) -> None:
    assert "cannot be read to its end" in problems(list(read_file(tmp_path / "gone.jsonl")))[0]


def test_aliases_and_agent_names_are_folded_as_the_edge_folds_them(tmp_path: Path) -> None:
    spoken = {
        "event_id": "1",
        "sessionID": "c:s1",
        "parentID": "",
        "agent_name": "Explore (Fast)",
        "exitCode": 1,
        "t": 5,
    }
    live = parse(json.dumps(spoken).encode(), "application/json", Receipt(Identity(), 0.0, str)).events
    offline = worlds(list(read_file(written(tmp_path, spoken))))[0].events

    assert list(offline) == live
    assert (live[0].session_id, live[0].agent, live[0].exit) == ("s1", "explore-fast", 1)
