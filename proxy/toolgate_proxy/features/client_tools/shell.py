"""`shell`: commands for a shell of the client (with a container it is a hosted tool), and
`local_shell`: one program that the client runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...api.shared.tools import closed, typed
from ...request_fields import Fields
from .tool import LIMIT, BuiltinTool, Event, Member, present

WORDS = (
    "Runs commands in a shell, one after another, and returns what they print and their exit "
    "codes. Commands can't ask for input."
)
SKILLS = "There are instructions for some tasks. Read the file before you do such a task:"
CONTAINERS = ("container_auto", "container_reference")
"""Types of environments that OpenAI runs."""
LIMITS = ("timeout_ms", "max_output_length")
PARAMETERS = closed(
    {
        "commands": typed(
            "array", "The commands, in their order.", items={"type": "string"}, minItems=1
        ),
        "timeout_ms": typed("integer", "Milliseconds after which the commands are ended.", **LIMIT),
        "max_output_length": typed(
            "integer", "Most characters of output that are returned.", **LIMIT
        ),
    },
    "commands",
)


def _describe(entry: Fields) -> str:
    given = entry.mapping("environment")
    if given is None:
        return WORDS
    environment = Fields(given, entry.path("environment"))
    environment.check_known(("type", "skills"))
    if environment.text("type") != "local":
        raise environment.wrong("type", '"local"')
    skills = [
        _skill(each, f"{environment.path('skills')}[{at}]")
        for at, each in enumerate(environment.items("skills") or ())
    ]
    return "\n".join([f"{WORDS} {SKILLS}", *skills]) if skills else WORDS


def _skill(given: object, path: str) -> str:
    skill = Fields(given if isinstance(given, dict) else {}, path)
    name, description, file = (
        skill.required_text(each) for each in ("name", "description", "path")
    )
    return f"- {name} ({file}): {description}"


def _is_client_run(entry: Mapping[str, Any]) -> bool:
    environment = entry.get("environment")
    return not isinstance(environment, dict) or environment.get("type") not in CONTAINERS


def _to_member(arguments: dict[str, Any]) -> Member:
    return {
        "commands": arguments["commands"],
        **{name: arguments.get(name) for name in LIMITS},
    }


def _deltas(action: Member) -> Iterator[Event]:
    kind = "response.shell_call_command"
    for at, command in enumerate(action["commands"]):
        place = {"command_index": at}
        yield {"type": f"{kind}.added", **place, "command": ""}
        yield {"type": f"{kind}.delta", **place, "delta": command}
        yield {"type": f"{kind}.done", **place, "command": command}


def _to_text(item: Mapping[str, Any]) -> str:
    output = item.get("output")
    if isinstance(output, list):
        return "\n".join(_printed(each) for each in output if isinstance(each, dict))
    return output if isinstance(output, str) else ""


def _printed(chunk: Mapping[str, Any]) -> str:
    """What a command printed, and how it ended."""
    parts = [
        f"{head}{text.removesuffix(chr(10))}"
        for head, text in (("", chunk.get("stdout")), ("[stderr]\n", chunk.get("stderr")))
        if isinstance(text, str) and text
    ]
    match chunk.get("outcome"):
        case {"type": "exit", "exit_code": int() as code}:
            parts.append(f"[exit code {code}]")
        case {"type": "timeout"}:
            parts.append("[timed out]")
    return "\n".join(parts)


SHELL = BuiltinTool(
    type="shell",
    describe=_describe,
    parameters=PARAMETERS,
    call="shell_call",
    prefix="sh",
    member="action",
    to_member=_to_member,
    to_arguments=lambda action: present(action, ("commands", *LIMITS)),
    to_text=_to_text,
    begun=lambda action: {**action, "commands": []},
    deltas=_deltas,
    is_client_run=_is_client_run,
    fields=("environment",),
    more={"environment": {"type": "local"}},
)


LOCAL_WORDS = (
    "Runs one program on the user's computer and returns what it prints. `command` has the program "
    'and its arguments: ["ls", "-l"], or ["bash", "-lc", "ls | head"] for the syntax of a shell.'
)
OPTIONS = ("timeout_ms", "user", "working_directory")
LOCAL_PARAMETERS = closed(
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


def _to_exec(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "exec",
        "command": arguments["command"],
        "env": arguments.get("env", {}),
        **present(arguments, OPTIONS),
    }


def _of_exec(action: Mapping[str, Any]) -> dict[str, Any]:
    given = present(action, ("command", *OPTIONS))
    return {**given, "env": action["env"]} if action.get("env") else given


def _exec_text(item: Mapping[str, Any]) -> str:
    output = item.get("output")
    return output if isinstance(output, str) else ""


LOCAL_SHELL = BuiltinTool(
    type="local_shell",
    describe=lambda _: LOCAL_WORDS,
    parameters=LOCAL_PARAMETERS,
    call="local_shell_call",
    prefix="lsh",
    member="action",
    to_member=_to_exec,
    to_arguments=_of_exec,
    to_text=_exec_text,
)
