"""Schemas of tools whose input is one of several commands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]


def member(kind: str, description: str, **more: Any) -> Schema:
    return {"type": kind, "description": description, **more}


@dataclass(frozen=True)
class Command:
    """One command: the members that it needs, and those that it may have."""

    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


def command_schema(
    name: str, description: str, members: Mapping[str, Schema], commands: Mapping[str, Command]
) -> Schema:
    """Return the schema of an input whose member `name` has the command. All members are declared
    once, where chat templates show them. The alternatives are exact: a command has its own members
    only."""
    used = {each for command in commands.values() for each in command.required + command.optional}
    declared = {key: value for key, value in members.items() if key in used}
    return {
        "type": "object",
        "properties": {name: member("string", description, enum=[*commands]), **declared},
        "required": [name],
        "anyOf": [_alternative(name, word, command) for word, command in commands.items()],
    }


def _alternative(name: str, word: str, command: Command) -> Schema:
    own = dict.fromkeys(command.required + command.optional, True)
    return {
        "properties": {name: {"const": word}, **own},
        "required": [name, *command.required],
        "additionalProperties": False,
    }
