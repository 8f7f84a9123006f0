"""`local_shell`: one program that the client runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .tool import BuiltinTool, described, present

WORDS = (
    "Runs one program on the user's computer and returns what it prints. `command` has the program "
    'and its arguments: ["ls", "-l"], or ["bash", "-lc", "ls | head"] for the syntax of a shell.'
)
OPTIONS = ("timeout_ms", "user", "working_directory")
PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "command": {
            "type": "array",
            "items": {"type": "string"},
            "minItems": 1,
            "description": "The program and its arguments.",
        },
        "working_directory": {
            "type": "string",
            "description": "The directory in which it runs, if not the usual one.",
        },
        "timeout_ms": {
            "type": "integer",
            "minimum": 1,
            "maximum": 2**31 - 1,
            "description": "Milliseconds after which it is ended.",
        },
        "env": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Further environment variables.",
        },
        "user": {"type": "string", "description": "The user that runs it, if not the usual one."},
    },
    "required": ["command"],
    "additionalProperties": False,
}


ALWAYS: dict[str, Any] = {"env": {}}


def _to_member(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "exec",
        "command": arguments["command"],
        "env": arguments.get("env", ALWAYS["env"]),
        **present(arguments, OPTIONS),
    }


def _to_arguments(action: Mapping[str, Any]) -> dict[str, Any]:
    given = present(action, ("command", *OPTIONS))
    return {**given, "env": action["env"]} if action.get("env") else given


def _to_text(item: Mapping[str, Any]) -> str:
    output = item.get("output")
    return output if isinstance(output, str) else ""


LOCAL_SHELL = BuiltinTool(
    type="local_shell",
    describe=described(WORDS),
    parameters=PARAMETERS,
    call="local_shell_call",
    prefix="lsh",
    member="action",
    to_member=_to_member,
    to_arguments=_to_arguments,
    to_text=_to_text,
    always=ALWAYS,
)
