"""What the recorded transcripts do not hold: other versions of the formats and their traps, as they are documented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actors.messages import Kind, ProgressEvent
from actors.sensors.readers.formats import read_file
from actors.sensors.readers.records import World


def events(directory: Path, *values: Any, name: str = "log.jsonl", indent: int | None = None) -> list[ProgressEvent]:
    path = directory / name
    path.write_text("".join(json.dumps(value, indent=indent) + "\n" for value in values))
    found = list(read_file(path))
    assert all(isinstance(one, World) for one in found), found
    return [event for one in found if isinstance(one, World) for event in one.events]


def tools(found: list[ProgressEvent]) -> list[Any]:
    return [(one.tool, one.target, one.exit, one.error, one.landed) for one in found if one.kind is Kind.TOOL]


def kinds(found: list[ProgressEvent]) -> list[str]:
    return [one.kind.value for one in found]


# Claude Code


def claude(kind: str, content: Any, **more: Any) -> dict[str, Any]:
    message = {"role": kind, "content": content, **more.pop("message", {})}
    return {"type": kind, "sessionId": "s", "parentUuid": None, "cwd": "/p", "message": message, **more}


def use(call: str, name: str, message: str = "m1", output_tokens: int = 5, **given: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 100, "output_tokens": output_tokens}
    block = {"type": "tool_use", "id": call, "name": name, "input": given}
    return claude("assistant", [block], message={"id": message, "model": "claude-sonnet-4-5", "usage": usage})


def result(call: str, content: Any, facts: Any = None, **flags: Any) -> dict[str, Any]:
    return claude(
        "user", [{"type": "tool_result", "tool_use_id": call, "content": content, **flags}], toolUseResult=facts
    )


def test_claude_message_over_several_lines_is_one_turn_with_its_last_usage(tmp_path: Path) -> None:
    lines = [use("a", "Read", file_path="/p/x"), use("b", "Read", file_path="/p/y", output_tokens=7)]
    found = events(tmp_path, *lines, result("a", "1"), result("b", [{"type": "text", "text": "2"}]))
    turns = [one for one in found if one.kind is Kind.TURN]

    assert [(one.round, one.tokens) for one in turns] == [
        ("m1", turns[0].tokens),
    ]
    assert turns[0].tokens is not None
    assert turns[0].model_dump()["tokens"] == {"prompt": 110, "cached": 0, "completion": 7}
    assert turns[0].cost_usd == pytest.approx((10 * 3 + 100 * 3.75 + 7 * 15) / 1e6)
    assert tools(found) == [("read", "x", 0, None, False), ("read", "y", 0, None, False)]


def test_claude_exit_status_is_the_text_and_success_may_say_nothing(tmp_path: Path) -> None:
    found = events(
        tmp_path,
        *(use(name, "Bash", name, command="make test") for name in "abcde"),
        result("a", "fine"),
        result("b", "Exit code 127\nsh: x: not found", is_error=True),
        result("c", "Command timed out after 2m 0s", is_error=True),
        result("d", "The user doesn't want to proceed with this tool use.", is_error=True),
        result("e", "", {"interrupted": True}),
    )

    assert [(one[2], one[3]) for one in tools(found)] == [
        (0, None),
        (127, "notfound"),
        (None, "timeout"),
        (1, "denied"),
        (None, None),
    ]


def test_claude_calls_without_a_result_are_still_open_and_no_event(tmp_path: Path) -> None:
    assert tools(events(tmp_path, use("a", "Bash", command="sleep 9"), claude("user", "hello"))) == []


def test_claude_messages_in_the_name_of_the_user_are_told_apart(tmp_path: Path) -> None:
    found = events(
        tmp_path,
        claude("user", "fix it"),
        claude("user", "[Request interrupted by user]"),
        claude("user", "<system-reminder>go on</system-reminder>"),
        claude("user", "a stop hook says", isMeta=True),
        claude("user", "This session is being continued", isCompactSummary=True),
        {"type": "system", "subtype": "compact_boundary", "sessionId": "s", "parentUuid": None},
        {"type": "system", "subtype": "api_error", "sessionId": "s", "parentUuid": None},
    )

    assert kinds(found) == ["user", "interrupt", "injected", "injected", "injected", "compaction", "retry"]


def test_claude_edit_undone_and_redone_has_the_state_of_the_files_bytes(tmp_path: Path) -> None:
    def edited(call: str, before: str, old: str, new: str) -> list[dict[str, Any]]:
        facts = {"filePath": "/p/x", "originalFile": before, "oldString": old, "newString": new}
        return [use(call, "Edit", call, file_path="/p/x", old_string=old, new_string=new), result(call, "ok", facts)]

    found = events(
        tmp_path,
        *edited("a", "one", "one", "two"),
        *edited("b", "two", "two", "one"),
        *edited("c", "one", "one", "two"),
    )
    states = [one.state for one in found if one.kind is Kind.TOOL]

    assert states[0] == states[2] != states[1]


# Codex


def codex(kind: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2026-12-01T03:56:04.738Z", "type": kind, "payload": payload}


def called(call: str, name: str, arguments: Any, output: Any) -> list[dict[str, Any]]:
    given = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return [
        codex("response_item", type="function_call", name=name, arguments=given, call_id=call),
        codex("response_item", type="function_call_output", call_id=call, output=output),
    ]


def test_codex_running_process_has_no_exit_and_an_empty_stdin_is_a_look_at_it(tmp_path: Path) -> None:
    running = "Chunk ID: 1\nWall time: 10 seconds\nProcess running with session ID 7\nOutput:\n50%"
    found = events(
        tmp_path,
        codex("session_meta", id="s", cwd="/p"),
        *called("a", "exec_command", {"cmd": "make"}, running),
        *called("b", "write_stdin", {"session_id": 7, "chars": ""}, running.replace("50%", "80%")),
        *called("c", "write_stdin", {"session_id": 7, "chars": ""}, running.replace("50%", "90%")),
    )
    calls = [one for one in found if one.kind is Kind.TOOL]

    assert [(one.tool, one.exit) for one in calls] == [("bash", None), ("poll", None), ("poll", None)]
    assert calls[1].fingerprint == calls[2].fingerprint
    assert calls[1].result != calls[2].result


def test_codex_shell_of_early_versions_has_its_exit_in_json(tmp_path: Path) -> None:
    output = json.dumps({"output": "no\n", "metadata": {"exit_code": 2, "duration_seconds": 0.1}})
    patch = "*** Begin Patch\n*** Update File: a.py\n@@\n-a\n+b\n*** End Patch"
    done = json.dumps({"output": "Success", "metadata": {"exit_code": 0}})
    found = events(
        tmp_path,
        codex("session_meta", id="s", cwd="/p"),
        *called("a", "shell", {"command": ["bash", "-lc", "make test"]}, output),
        *called("b", "shell", {"command": ["apply_patch", patch]}, done),
    )

    assert tools(found) == [
        ("bash", "make test", 2, None, False),
        ("apply_patch", "a.py", 0, None, True),
    ]


def test_codex_usage_told_twice_counts_once(tmp_path: Path) -> None:
    usage = {"input_tokens": 10, "cached_input_tokens": 4, "output_tokens": 2, "total_tokens": 12}
    told = codex("event_msg", type="token_count", info={"last_token_usage": usage, "total_token_usage": usage})
    found = events(tmp_path, codex("session_meta", id="s"), told, told, codex("event_msg", type="turn_aborted"))

    assert kinds(found) == ["turn", "interrupt"]


def test_codex_spawned_thread_names_its_parent(tmp_path: Path) -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": "root", "agent_role": "explorer"}}}
    lines = [codex("session_meta", id="kid", source=source), *called("a", "shell", {"command": ["ls"]}, "Exit code: 0")]
    found = events(tmp_path, *lines)

    assert {(one.session_id, one.parent_session_id, one.agent) for one in found} == {("kid", "root", "explorer")}


# Gemini


def test_gemini_chat_of_one_document_is_read(tmp_path: Path) -> None:
    def call(name: str, status: str, **response: Any) -> dict[str, Any]:
        answer = [{"functionResponse": {"name": name, "response": response}}]
        return {"id": name, "name": name, "args": {"command": "make test"}, "status": status, "result": answer}

    chat = {
        "sessionId": "s",
        "projectHash": "h",
        "startTime": "2026-12-01T03:56:09.189Z",
        "messages": [
            {"id": "1", "type": "user", "content": "fix it"},
            {
                "id": "2",
                "type": "gemini",
                "content": "I will",
                "toolCalls": [
                    call("run_shell_command", "success", output="Output: x\nExit Code: 2"),
                    call("run_shell_command", "cancelled"),
                    call("run_shell_command", "error", error="Command denied by policy"),
                ],
                "tokens": {"input": 10, "output": 2, "cached": 3, "thoughts": 1},
            },
            {"id": "3", "type": "info", "content": "x"},
        ],
    }
    found = events(tmp_path, chat, name="session.json", indent=2)

    assert kinds(found) == ["user", "assistant", "tool", "tool", "tool", "turn"]
    assert [(one[2], one[3]) for one in tools(found)] == [(2, None), (None, None), (1, "denied")]
    assert found[-1].model_dump()["tokens"] == {"prompt": 10, "cached": 3, "completion": 3}


# mini-swe-agent, SWE-agent


def test_mini_swe_agent_of_version_1_has_commands_in_fences_and_exits_in_tags(tmp_path: Path) -> None:
    def said(command: str) -> dict[str, Any]:
        return {"role": "assistant", "content": f"THOUGHT: so\n\n```bash\n{command}\n```"}

    def heard(code: int, output: str) -> dict[str, Any]:
        return {"role": "user", "content": f"<returncode>{code}</returncode>\n<output>\n{output}\n</output>"}

    trajectory = {
        "trajectory_format": "mini-swe-agent-1",
        "info": {},
        "messages": [
            {"role": "system", "content": "be good"},
            {"role": "user", "content": "fix it"},
            said("cat <<'EOF' > a.py\nx\nEOF"),
            heard(0, ""),
            said("python a.py"),
            heard(1, "boom"),
            {"role": "assistant", "content": "no fence"},
            {"role": "user", "content": "Please always provide EXACTLY ONE action"},
        ],
    }
    found = events(tmp_path, trajectory, name="x.traj.json", indent=1)

    assert [(one[2], one[4]) for one in tools(found)] == [(0, True), (1, False)]
    assert kinds(found)[-1] == "injected"
    assert kinds(found).count("turn") == 3


def test_swe_agent_with_the_edit_tool_of_anthropic_is_read(tmp_path: Path) -> None:
    steps = [
        {"action": "str_replace_editor view /r/a.py", "observation": "x"},
        {"action": "str_replace_editor create /r/new.py --file_text 'x'", "observation": "File created"},
        {"action": "str_replace_editor str_replace /r/a.py --old_str a", "observation": "No replacement was performed"},
        {"action": "", "observation": "Your output was not formatted correctly."},
    ]
    found = events(tmp_path, {"trajectory": steps, "info": {}}, name="i.traj")

    assert tools(found) == [
        ("read", "/r/a.py", 0, None, False),
        ("write", "/r/new.py", 0, None, True),
        ("edit", "/r/a.py", 1, "edit_mismatch", False),
    ]
    assert {one.session_id for one in found} == {"i"}


# OpenHands, pi


def test_openhands_evaluation_line_and_kit_events_are_read(tmp_path: Path) -> None:
    run = {"id": 1, "source": "agent", "action": "run", "args": {"command": "make test"}}
    seen = {"id": 2, "source": "agent", "observation": "run", "cause": 1, "content": "no", "extras": {"exit_code": 2}}
    assert tools(events(tmp_path, {"instance_id": "i", "history": [[run, seen]]})) == [
        ("bash", "make test", 2, None, False)
    ]

    ask = {"kind": "MessageEvent", "source": "user", "llm_message": {"content": [{"text": "fix it"}]}}
    act = {
        "kind": "ActionEvent",
        "source": "agent",
        "tool_name": "terminal",
        "tool_call_id": "c",
        "llm_response_id": "r",
        "action": {"kind": "TerminalAction", "command": "make test"},
    }
    got = {
        "kind": "ObservationEvent",
        "source": "environment",
        "tool_call_id": "c",
        "observation": {"kind": "TerminalObservation", "content": [{"text": "no"}], "exit_code": 2},
    }
    found = events(tmp_path, ask, act, got, name="kit.jsonl")

    assert kinds(found) == ["user", "turn", "tool"]
    assert tools(found) == [("bash", "make test", 2, None, False)]


def test_openhands_dollars_grow_and_each_reply_has_its_part(tmp_path: Path) -> None:
    def step(number: int, total: float) -> dict[str, Any]:
        metrics = {"accumulated_cost": total}
        return {"id": number, "source": "agent", "action": "think", "args": {}, "llm_metrics": metrics}

    found = events(tmp_path, [step(0, 0.25), step(1, 0.75)], name="t.json")
    assert [one.cost_usd for one in found] == [0.25, 0.5]


def test_pi_session_with_a_compaction_and_an_injected_message(tmp_path: Path) -> None:
    def message(**fields: Any) -> dict[str, Any]:
        return {"type": "message", "id": "m", "parentId": None, "message": fields}

    bash = {"type": "toolCall", "id": "c", "name": "bash", "arguments": {"command": "make test"}}
    found = events(
        tmp_path,
        {"type": "session", "version": 3, "id": "s", "cwd": "/p"},
        message(role="user", content="fix it"),
        message(role="assistant", content=[bash], stopReason="toolUse", usage={"input": 5, "cost": {"total": 0.5}}),
        message(role="toolResult", toolCallId="c", content=[{"type": "text", "text": "Command exited with code 2"}]),
        {"type": "compaction", "id": "k", "summary": "x"},
        {"type": "custom_message", "id": "k", "content": "go on"},
        message(role="assistant", content=[], stopReason="aborted"),
    )

    assert kinds(found) == ["user", "turn", "tool", "compaction", "injected", "turn", "interrupt"]
    assert tools(found) == [("bash", "make test", 2, None, False)]
    assert found[1].cost_usd == 0.5


# opencode


def opencode(*messages: Any) -> dict[str, Any]:
    info = {"id": "ses_1", "directory": "/p", "time": {"created": 1}}
    return {"info": info, "messages": [{"info": one, "parts": parts} for one, parts in messages]}


def assistant(number: str, *parts: Any, **info: Any) -> tuple[dict[str, Any], list[Any]]:
    time = {"created": 1796097365000, "completed": 1796097366000}
    return {"id": number, "role": "assistant", "agent": "build", "time": time, **info}, list(parts)


def part(tool: str, status: str = "completed", **state: Any) -> dict[str, Any]:
    return {"type": "tool", "tool": tool, "callID": "c", "state": {"status": status, "input": {}, **state}}


def user(number: str, *parts: Any) -> tuple[dict[str, Any], list[Any]]:
    return {"id": number, "role": "user", "time": {"created": 1796097364000}}, list(parts)


def test_opencode_exports_of_several_sessions_stand_in_one_file(tmp_path: Path) -> None:
    child = opencode(assistant("m9", part("read", input={"filePath": "/p/x"}, output="x")))
    child["info"] |= {"id": "ses_2", "parentID": "ses_1"}
    found = events(tmp_path, opencode(assistant("m1")), child, name="export.json", indent=2)

    assert {(one.session_id, one.parent_session_id) for one in found} == {("ses_1", None), ("ses_2", "ses_1")}


def test_opencode_outcomes_are_those_of_the_plugin(tmp_path: Path) -> None:
    bash = {"command": "make test"}
    found = events(
        tmp_path,
        opencode(
            assistant(
                "m1",
                part("bash", input=bash, output="x", metadata={"exit": 2}),
                part("bash", input=bash, output="x", metadata={"exit": None}),
                part("bash", "error", input=bash, error="Tool execution aborted"),
                part("edit", input={"filePath": "/p/x"}, output="", metadata={"diff": ""}),
                part("edit", input={"filePath": "/p/x", "newString": "y"}, output="", metadata={"diff": "+y"}),
                part("edit", "error", input={"filePath": "/p/x"}, error="No changes to apply"),
                part("invalid", input={"tool": "nosuch", "error": "unavailable tool 'nosuch'"}, output="x"),
                part("bash", "running", input=bash),
            )
        ),
        name="export.json",
    )

    assert [(one[2], one[3], one[4]) for one in tools(found)] == [
        (2, None, False),
        (None, None, False),
        (None, None, False),
        (0, None, False),
        (0, None, True),
        (1, "edit_mismatch", False),
        (1, "unknown_tool", False),
    ]


def test_opencode_user_messages_are_told_apart_as_by_the_plugin(tmp_path: Path) -> None:
    found = events(
        tmp_path,
        opencode(
            user("u1", {"type": "text", "text": "fix it"}),
            assistant("m1", parentID="u1", finish="stop"),
            user("u2", {"type": "text", "text": "go on", "synthetic": True}),
            user("u3", {"type": "text", "text": "[SYSTEM DIRECTIVE: OH-MY-OPENCODE] continue"}),
            user("u4", {"type": "compaction", "auto": True}),
            assistant("m2", parentID="u3", summary=True),
            assistant("m3", parentID="u3", error={"name": "MessageAbortedError"}),
            assistant("m4", parentID="u3", error={"name": "APIError"}),
        ),
        name="export.json",
    )

    assert kinds(found) == [
        *("user", "turn", "done", "injected", "injected", "turn", "compaction", "turn", "interrupt", "turn")
    ]
    assert found[-1].error == "provider"
