"""The words of other clients for tools and arguments, put into opencode's, which the rules of normalising speak."""

from __future__ import annotations

from typing import Any

__all__ = ["renamed"]

# lower-case name of a client's tool -> opencode's
TOOLS = {
    "agent": "task",
    "apply_patch": "apply_patch",
    "bash": "bash",
    "bashoutput": "bashoutput",
    "cmd_run": "bash",
    "edit": "edit",
    "edit_file": "edit",
    "exec_command": "bash",
    "execute_bash": "bash",
    "file_editor": "edit",
    "find": "glob",
    "glob": "glob",
    "grep": "grep",
    "grep_search": "grep",
    "invoke_agent": "task",
    "list_directory": "list",
    "local_shell": "bash",
    "ls": "list",
    "multiedit": "multiedit",
    "notebookedit": "edit",
    "read": "read",
    "read_file": "read",
    "read_many_files": "glob",
    "replace": "edit",
    "run": "bash",
    "run_shell_command": "bash",
    "search_file_content": "grep",
    "shell": "bash",
    "shell_command": "bash",
    "str_replace_based_edit_tool": "edit",
    "str_replace_editor": "edit",
    "task": "task",
    "terminal": "bash",
    "todo": "todowrite",
    "todowrite": "todowrite",
    "update_plan": "todowrite",
    "write": "write",
    "write_file": "write",
    "write_todos": "todowrite",
}
FILE_TOOLS = frozenset({"read", "edit", "multiedit", "write"})
FILE_KEYS = ("file_path", "absolute_path", "notebook_path", "path", "filename")
KEYS = {
    "old_string": "oldString",
    "old_str": "oldString",
    "old_text": "oldString",
    "oldText": "oldString",
    "new_string": "newString",
    "new_str": "newString",
    "new_text": "newString",
    "newText": "newString",
    "file_text": "content",
    "replace_all": "replaceAll",
    "dir_path": "path",
    "agent_name": "subagent_type",
    "cmd": "command",
}
# of wording, of no account for what was done, or the client's own defaults
DROPPED = frozenset({"instruction", "description", "security_risk", "summary", "thought"})


def renamed(name: str, args: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return tool and arguments in opencode's words; what is not known stays as it is, the tool in lower case."""
    tool = TOOLS.get(name.lower(), name.lower())
    named = {KEYS.get(key, key): value for key, value in args.items() if key not in DROPPED}
    if tool == "edit" and named.get("command") in ("view", "create"):  # one tool, many commands
        tool = "read" if named.pop("command") == "view" else "write"
    if tool in FILE_TOOLS and "filePath" not in named:
        key = next((one for one in FILE_KEYS if isinstance(named.get(one), str)), None)
        if key is not None:
            named["filePath"] = named.pop(key)
    return tool, named
