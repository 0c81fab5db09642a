"""config/treewarden.yaml and the models say the same."""

import re
from pathlib import Path

import yaml

from actors.cli.config import HEADER
from actors.knobs import Knobs
from supervisor.settings.layers import flatten, read_file
from supervisor.settings.reference import reference
from supervisor.settings.render import Layers, render
from supervisor.settings.schema import leaves

FILE = Path(__file__).parents[3] / "config" / "treewarden.yaml"


def uncommented(text):
    """A mark followed by a name, or by the two blanks of a list, is a knob."""
    return re.sub(r"^(\s*)#(?=\S|  )", r"\1", text, flags=re.MULTILINE)


def test_reference_file_is_the_generated_one():
    assert FILE.read_text() == reference(Knobs, HEADER), "run: treewarden config reference > config/treewarden.yaml"


def test_reference_file_as_it_is_changes_nothing():
    assert read_file(Knobs, FILE) == {}


def test_reference_file_uncommented_holds_every_default():
    flat = flatten(Knobs, yaml.safe_load(uncommented(FILE.read_text())))
    assert flat.keys() == leaves(Knobs).keys()
    assert render(Knobs, Layers(file=flat)).values == Knobs().model_dump(mode="json")


def test_every_knob_has_a_doc_line_and_an_allowed_set():
    for path, leaf in leaves(Knobs).items():
        assert leaf.doc, path
        assert leaf.allowed != "a value", path
        assert isinstance(leaf.node.get("hot"), bool), path


def test_reference_is_ascii_and_fits_the_screen():
    for line in FILE.read_text().splitlines():
        assert line.isascii()
        assert len(line) <= 120, line


def test_only_run_knobs_need_a_restart():
    assert {path for path, leaf in leaves(Knobs).items() if not leaf.hot} == {"run.port", "run.shards"}
