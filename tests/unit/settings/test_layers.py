"""Where settings come from: files and environment, read strictly."""

import pytest

from actors.knobs import Knobs
from supervisor.settings.errors import InvalidSettings
from supervisor.settings.layers import flatten, nest, read_environment, read_file


def problems_of(call):
    with pytest.raises(InvalidSettings) as caught:
        call()
    return caught.value.problems


def from_file(tmp_path, text):
    path = tmp_path / "treewarden.yaml"
    path.write_text(text)
    return read_file(Knobs, path)


def test_file_values_become_dotted_names(tmp_path):
    text = "progress:\n  mode: warn\n  window: 80\nclients:\n  opencode:\n    urls: [http://127.0.0.1:4096]\n"
    assert from_file(tmp_path, text) == {
        "progress.mode": "warn",
        "progress.window": 80,
        "clients.opencode.urls": ["http://127.0.0.1:4096"],
    }


@pytest.mark.parametrize("text", ["", "progress:\n", "clients:\n  opencode:\n"])
def test_file_empty_sections_set_nothing(tmp_path, text):
    assert from_file(tmp_path, text) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("progress:\n  window: 10\n  window: 20\n", [":3: key 'window' is given twice"]),
        ("notifications:\n  channels:\n  - {name: a, name: b}\n", ["key 'name' is given twice"]),
        ("progress:\n  windwo: 10\n", ["progress.windwo is not a knob", "did you mean window?", "stall_turns"]),
        ("progres:\n  window: 10\n", ["progres is not a knob", "did you mean progress?"]),
        ("progress: 5\n", ["progress = 5 must be a mapping", "stall_turns"]),
        ("- progress\n", ['the file = ["progress"] must be a mapping']),
        ("progress: {mode: warn\n", [":2: expected"]),
        ("5: 3\n", ["key 5 must be text"]),
        ("progress: !!python/object:os.system x\n", ["could not determine a constructor"]),
    ],
)
def test_file_what_is_wrong_is_named_with_its_place(tmp_path, text, words):
    (problem,) = problems_of(lambda: from_file(tmp_path, text))
    assert str(tmp_path / "treewarden.yaml") in problem
    for word in words:
        assert word in problem


def test_file_missing_is_named(tmp_path):
    (problem,) = problems_of(lambda: read_file(Knobs, tmp_path / "none.yaml"))
    assert str(tmp_path / "none.yaml") in problem


def test_file_dates_stay_text(tmp_path):
    assert from_file(tmp_path, "progress:\n  mode: 2026-01-01\n") == {"progress.mode": "2026-01-01"}


def test_file_every_unknown_name_is_a_problem():
    assert len(problems_of(lambda: flatten(Knobs, {"a": 1, "progress": {"b": 2}, "run": {"port": 1}}))) == 2


def test_nest_undoes_flatten():
    nested = {"progress": {"mode": "warn"}, "clients": {"opencode": {"urls": []}}}
    assert nest(flatten(Knobs, nested)) == nested


def test_environment_values_are_yaml():
    env = {
        "TREEWARDEN__PROGRESS__STALL_USD": "2.5",
        "TREEWARDEN__PROGRESS__MODE": "warn",
        "TREEWARDEN__CLIENTS__OPENCODE__URLS": "[http://a, http://b]",
        "TREEWARDEN_STATE_DIR": "/x",
        "OTHER": "y",
    }
    assert read_environment(Knobs, env, "TREEWARDEN") == {
        "progress.stall_usd": 2.5,
        "progress.mode": "warn",
        "clients.opencode.urls": ["http://a", "http://b"],
    }


def test_environment_unknown_variable_is_named():
    (problem,) = problems_of(lambda: read_environment(Knobs, {"TREEWARDEN__PROGRESS__MOD": "x"}, "TREEWARDEN"))
    assert problem.startswith("TREEWARDEN__PROGRESS__MOD")
    assert "did you mean TREEWARDEN__PROGRESS__MODE?" in problem
