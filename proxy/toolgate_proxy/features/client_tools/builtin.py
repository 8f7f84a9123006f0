"""Tools that OpenAI defines and clients run: what the model is offered, and the items that their
calls and results are.

`shell`: commands for a shell of the client (with a container it is a hosted tool), `local_shell`:
one program that the client runs, and `apply_patch`: changes to files that the client makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ...request_fields import Fields

OFFERED = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
Event = dict[str, Any]
Member = dict[str, Any]


@dataclass(frozen=True)
class BuiltinTool:
    type: str
    """Of the entry in `tools`. It is also the name by which the model calls the tool."""
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
    more_words: Callable[[Fields], str] = lambda _: ""
    """Returns what the description for the model ends with. The argument is the entry."""
    is_client_run: Callable[[Mapping[str, Any]], bool] = lambda _: True
    """Whether the client runs the tool of this entry, and not the provider."""
    fields: tuple[str, ...] = ()
    """Further fields of the entry."""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further members of a call's item."""

    def function(self, entry: Fields) -> dict[str, Any]:
        """Return what the model is offered for an entry. Raise InvalidRequest and
        UnsupportedParameter."""
        description, parameters = OFFERED[self.type].values()
        words = description + self.more_words(entry)
        return {"name": self.type, "description": words, "parameters": parameters}

    @property
    def output(self) -> str:
        """The type of the items of results."""
        return f"{self.call}_output"


def present(members: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Return the members that are given and not null."""
    return {name: members[name] for name in names if members.get(name) is not None}


SKILLS = " There are instructions for some tasks. Read the file before you do such a task:"
CONTAINERS = ("container_auto", "container_reference")
"""Types of environments that OpenAI runs."""
LIMITS = ("timeout_ms", "max_output_length")


def _skills(entry: Fields) -> str:
    members = entry.mapping("environment")
    if members is None:
        return ""
    environment = Fields(members, entry.path("environment"))
    environment.check_known(("type", "skills"))
    if environment.text("type") != "local":
        raise environment.wrong("type", '"local"')
    skills = [
        _skill(each, f"{environment.path('skills')}[{at}]")
        for at, each in enumerate(environment.items("skills") or ())
    ]
    return "\n".join([SKILLS, *skills]) if skills else ""


def _skill(value: object, path: str) -> str:
    skill = Fields(value if isinstance(value, dict) else {}, path)
    name, description, file = (
        skill.required_text(each) for each in ("name", "description", "path")
    )
    return f"- {name} ({file}): {description}"


def _is_client_run(entry: Mapping[str, Any]) -> bool:
    environment = entry.get("environment")
    return not isinstance(environment, dict) or environment.get("type") not in CONTAINERS


def _to_member(arguments: dict[str, Any]) -> Member:
    return {"commands": arguments["commands"], **{name: arguments.get(name) for name in LIMITS}}


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
    """Return what a command printed, and how it ended."""
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
    call="shell_call",
    prefix="sh",
    member="action",
    to_member=_to_member,
    to_arguments=lambda action: present(action, ("commands", *LIMITS)),
    to_text=_to_text,
    begun=lambda action: {**action, "commands": []},
    deltas=_deltas,
    more_words=_skills,
    is_client_run=_is_client_run,
    fields=("environment",),
    more={"environment": {"type": "local"}},
)


OPTIONS = ("timeout_ms", "user", "working_directory")


def _to_exec(arguments: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "exec",
        "command": arguments["command"],
        "env": arguments.get("env", {}),
        **present(arguments, OPTIONS),
    }


def _of_exec(action: Mapping[str, Any]) -> dict[str, Any]:
    members = present(action, ("command", *OPTIONS))
    return {**members, "env": action["env"]} if action.get("env") else members


def _exec_text(item: Mapping[str, Any]) -> str:
    output = item.get("output")
    return output if isinstance(output, str) else ""


LOCAL_SHELL = BuiltinTool(
    type="local_shell",
    call="local_shell_call",
    prefix="lsh",
    member="action",
    to_member=_to_exec,
    to_arguments=_of_exec,
    to_text=_exec_text,
)


PATCH_FIELDS = ("type", "path", "diff")


def _patch_deltas(operation: Member) -> Iterator[Event]:
    if "diff" not in operation:
        return
    kind, diff = "response.apply_patch_call_operation_diff", operation["diff"]
    yield {"type": f"{kind}.delta", "delta": diff}
    yield {"type": f"{kind}.done", "diff": diff}


def _patch_text(item: Mapping[str, Any]) -> str:
    """Return the output, which says if the call failed: templates have no field for it."""
    output, failed = item.get("output"), item.get("status") == "failed"
    if isinstance(output, str) and output:
        return f"Error: {output}" if failed else output
    return "Error" if failed else "Done"


APPLY_PATCH = BuiltinTool(
    type="apply_patch",
    call="apply_patch_call",
    prefix="apc",
    member="operation",
    to_member=lambda arguments: present(arguments["operation"], PATCH_FIELDS),
    to_arguments=lambda operation: {"operation": present(operation, PATCH_FIELDS)},
    to_text=_patch_text,
    begun=lambda operation: operation | ({"diff": ""} if "diff" in operation else {}),
    deltas=_patch_deltas,
)
