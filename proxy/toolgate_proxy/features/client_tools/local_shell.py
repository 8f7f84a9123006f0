"""`local_shell`: one program that the client runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..schemas import closed, typed
from .tool import LIMIT, BuiltinTool, present

WORDS = (
    "Runs one program on the user's computer and returns what it prints. `command` has the program "
    'and its arguments: ["ls", "-l"], or ["bash", "-lc", "ls | head"] for the syntax of a shell.'
)
OPTIONS = ("timeout_ms", "user", "working_directory")
PARAMETERS = closed(
    {
        "command": typed(
            "array", "The program and its arguments.", items={"type": "string"}, minItems=1
        ),
        "working_directory": typed(
            "string", "The directory in which it runs, if not the usual one."
        ),
        "timeout_ms": typed("integer", "Milliseconds after which it is ended.", **LIMIT),
        "env": typed(
            "object", "Further environment variables.", additionalProperties={"type": "string"}
        ),
        "user": typed("string", "The user that runs it, if not the usual one."),
    },
    "command",
)


def _to_member(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "exec",
        "command": arguments["command"],
        "env": arguments.get("env", {}),
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
    describe=lambda _: WORDS,
    parameters=PARAMETERS,
    call="local_shell_call",
    prefix="lsh",
    member="action",
    to_member=_to_member,
    to_arguments=_to_arguments,
    to_text=_to_text,
)
