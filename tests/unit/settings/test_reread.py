"""Reading the layers in another process: whatever it does, the answer is layers or a sentence."""

import asyncio
import json
import sys

import pytest

from supervisor.settings.errors import InvalidSettings
from supervisor.settings.reread import reread


def read(code, timeout_s=20.0):
    return asyncio.run(reread([sys.executable, "-c", code], timeout_s))


def saying(value):
    return f"print({json.dumps(json.dumps(value))})"


def test_reread_layers_are_returned():
    layers = {"file": {"a.b": 1}, "environment": {}}
    assert read(saying({"problems": [], "layers": layers})) == layers


def test_reread_problems_are_raised_one_by_one():
    with pytest.raises(InvalidSettings) as caught:
        read(saying({"problems": ["one", "two"]}))
    assert caught.value.problems == ["one", "two"]


@pytest.mark.parametrize(
    "code", ["import sys; sys.exit('out of luck')", "print('[]'); raise SystemExit('out of luck')"]
)
def test_reread_process_that_fails_is_a_problem_with_its_last_words(code):
    with pytest.raises(InvalidSettings, match="could not be read: out of luck"):
        read(code)


def test_reread_process_that_hangs_is_killed():
    with pytest.raises(InvalidSettings, match=r"could not be read in 0.2 s"):
        read("import threading; threading.Event().wait(60)", 0.2)
