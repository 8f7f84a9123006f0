"""Tools that OpenAI defines and clients run: what the model is offered, and the items that their
calls and results are.

`shell`: commands for a shell of the client (with a container it is a hosted tool), `local_shell`:
one program that the client runs, and `apply_patch`: changes to files that the client makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...api.shared.tools import closed, typed
from ...request_fields import Fields

LIMIT = {"minimum": 1, "maximum": 2**31 - 1}
"""Of a number of milliseconds or characters."""
Event = dict[str, Any]
Member = dict[str, Any]


@dataclass(frozen=True)
class BuiltinTool:
    type: str
    """Of the entry in `tools`. It is also the name by which the model calls the tool."""
    describe: Callable[[Fields], str]
    """Returns the description for the model. The argument is the entry."""
    parameters: dict[str, Any]
    call: str
    """The type of the items of its calls. That of results ends with `_output`."""
    prefix: str
    """Beginning of the ids of its calls."""
    member: str
    """The member of a call's item that has the arguments."""
    to_member: Callable[[dict[str, Any]], Member]
    """Makes that member of valid arguments."""
    to_arguments: Callable[[Member], dict[str, Any]]
    """Makes the arguments of the member of an earlier call."""
    to_text: Callable[[Mapping[str, Any]], str]
    """Returns what the model sees of the item of a result."""
    begun: Callable[[Member], Member] = dict
    """Returns the member without the texts that the events below add."""
    deltas: Callable[[Member], Iterator[Event]] = lambda _: iter(())
    """The events between the beginning and the end of a call's item, without the item's place."""
    is_client_run: Callable[[Mapping[str, Any]], bool] = lambda _: True
    """Whether the client runs the tool of this entry, and not the provider."""
    fields: tuple[str, ...] = ()
    """Further fields of the entry."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further members of a call's item."""

    @property
    def output(self) -> str:
        """The type of the items of results."""
        return f"{self.call}_output"


def present(given: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the members that are given and not null."""
    return {name: given[name] for name in names if given.get(name) is not None}


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


PATCH_WORDS = """Creates, updates or deletes one file.
`create_file`: each line of `diff` is `+` and a line of the new file.
`update_file`: `diff` has one or more sections. A section begins with the line `@@`, or with `@@ ` \
and a line of the file above the change, such as the head of its function. Then come about three \
lines before the change, the change, and about three lines after it. Each line begins with a space \
(it stays), `-` (it is removed) or `+` (it is added). Lines are as in the file, with their \
indentation. There are no line numbers and no names of files.
`delete_file` has no `diff`."""
PATCH_FIELDS = ("type", "path", "diff")
DIFFS = ("create_file", "update_file")
PATH = typed("string", "Path of the file in the workspace.", minLength=1)


def _operation(kind: str) -> dict[str, Any]:
    diff = {"diff": {"type": "string", "minLength": 1}} if kind in DIFFS else {}
    return closed({"type": {"type": "string", "const": kind}, "path": PATH, **diff})


OPERATION: dict[str, Any] = {
    "type": "object",  # templates read the type of each argument
    "description": "The change.",
    "anyOf": [_operation(kind) for kind in (*DIFFS, "delete_file")],
}


def _patch_deltas(operation: Member) -> Iterator[Event]:
    if "diff" not in operation:
        return
    kind, diff = "response.apply_patch_call_operation_diff", operation["diff"]
    yield {"type": f"{kind}.delta", "delta": diff}
    yield {"type": f"{kind}.done", "diff": diff}


def _patch_text(item: Mapping[str, Any]) -> str:
    """Templates have no field for a failed call, so the text says it."""
    output, failed = item.get("output"), item.get("status") == "failed"
    if isinstance(output, str) and output:
        return f"Error: {output}" if failed else output
    return "Error" if failed else "Done"


APPLY_PATCH = BuiltinTool(
    type="apply_patch",
    describe=lambda _: PATCH_WORDS,
    parameters=closed({"operation": OPERATION}),
    call="apply_patch_call",
    prefix="apc",
    member="operation",
    to_member=lambda arguments: present(arguments["operation"], PATCH_FIELDS),
    to_arguments=lambda operation: {"operation": present(operation, PATCH_FIELDS)},
    to_text=_patch_text,
    begun=lambda operation: operation | ({"diff": ""} if "diff" in operation else {}),
    deltas=_patch_deltas,
)
