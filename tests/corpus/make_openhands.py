"""Writes OpenHands' events with its own classes and serialisation: its agent needs Docker, its events do not.

CLIENTS/openhands/bin/python make_openhands.py PROJECT TARGET        (openhands-ai 0.9.8 from PyPI)
"""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

from openhands.events import EventSource
from openhands.events.action import AgentFinishAction, CmdRunAction, FileReadAction, FileWriteAction, MessageAction
from openhands.events.observation import (
    CmdOutputObservation,
    ErrorObservation,
    FileReadObservation,
    FileWriteObservation,
)
from openhands.events.serialization.event import event_to_dict

project, target = Path(sys.argv[1]), Path(sys.argv[2])
START = datetime(2026, 12, 1, 4, 0, 0)
TEST = "TOKEN=CANARY-SECRET python3 -m unittest -q test_calc"
calc = project / "calc.py"
events: list[dict[str, object]] = []


def add(event, source: EventSource, cause: int | None = None) -> int:
    event._id, event._source = len(events), source
    event._timestamp = (START + timedelta(seconds=len(events))).isoformat()
    if cause is not None:
        event._cause = cause
    events.append(event_to_dict(event))
    return event._id


def act(action, observation) -> None:
    add(observation, EventSource.AGENT, add(action, EventSource.AGENT))


def run(command: str) -> None:
    done = subprocess.run(command, shell=True, cwd=project, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    seen = CmdOutputObservation(printed, command_id=-1, command=command, exit_code=done.returncode)
    act(CmdRunAction(command, thought="CANARY-SAID"), seen)


add(MessageAction("Fix add in calc.py CANARY-PROMPT"), EventSource.USER)
act(FileReadAction(str(calc), thought="CANARY-SAID"), FileReadObservation(calc.read_text(), str(calc)))
run(TEST)
calc.write_text(calc.read_text().replace("a - b", "a + b"))
act(FileWriteAction(str(calc), calc.read_text()), FileWriteObservation("", str(calc)))
run(TEST)
missing = str(project / "nope.py")
act(FileReadAction(missing), ErrorObservation(f"File not found: {missing}. CANARY"))
run("cat missing.txt # CANARY")
run("cat missing.txt # CANARY")
run("git -c user.name=a -c user.email=a@b commit -qam CANARY-MESSAGE")
add(AgentFinishAction(thought="All done CANARY-SAID."), EventSource.AGENT)
target.write_text(json.dumps(events))
