"""bash, the text editor, memory and the computer of the Messages API, which messages.yaml has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from toolgate_core.errors import InvalidTools

from ...api.messages.feature import MessagesFeature, check_entry
from ...request_fields import Fields, as_integer

Schema = dict[str, Any]
COMMON_FIELDS = ("type", "name", "strict", "cache_control", "input_examples", "defer_loading")
"""Fields of the entries of all types."""
TOOLSETS = ("computer_toolset_", "browser_toolset_")
"""Beginnings of the types of sets of tools that Anthropic defines and clients run."""
ABOUT = {"command": "The command to run.", "action": "The action to perform."}
"""By the member of an input that says which of several commands it is: its description."""
ZOOM = {"zoom": "region"}
"""An action of the computer that the entry of the tool has to enable."""
MAX_PIXELS = 100_000
MAX_CHARACTERS = 10**9


@dataclass(frozen=True)
class ClientTool:
    """A tool in messages.yaml."""

    name: str
    """The only name that the type may have."""
    description: str
    fields: list[str] = field(default_factory=list)
    """Further fields of the entry."""
    schema: Schema = field(default_factory=dict)
    """Of the input, if it has no commands."""
    members: Mapping[str, Schema] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)

    def function(self, entry: Fields) -> dict[str, Any]:
        """Return what the model is offered for an entry. Raise InvalidRequest."""
        words, members, commands, choice = self.description, self.members, self.commands, "command"
        if entry.values.get("max_characters") is not None:
            shown = _count(entry, "max_characters", MAX_CHARACTERS)
            words = f"{words} A view has at most {shown:,} characters: use `view_range`."
        if "display_number" in self.fields:
            width, height = (_count(entry, name, MAX_PIXELS) for name in self.fields[:2])
            words, choice = words.format(width=width, height=height), "action"
            number = as_integer(entry.values.get("display_number"))
            if number is not None:
                words = f"{words} The display's number is {number}."
            members = {**_points(width, height), **members}
            commands = {**commands, **(ZOOM if entry.flag("enable_zoom") else {})}
        schema = command_schema(choice, members, commands) if commands else self.schema
        return {"name": self.name, "description": words, "parameters": schema}


def command_schema(
    name: str, members: Mapping[str, Schema], commands: Mapping[str, str]
) -> dict[str, Any]:
    """Return the schema of an input whose member `name` has the command. All members are declared
    once, where chat templates show them. The alternatives are exact: a command has its own members
    only."""
    used = {each.removesuffix("?") for text in commands.values() for each in text.split()}
    choice = {"type": "string", "description": ABOUT[name], "enum": [*commands]}
    return {
        "type": "object",
        "properties": {name: choice} | {key: members[key] for key in members if key in used},
        "required": [name],
        "anyOf": [_alternative(name, word, text.split()) for word, text in commands.items()],
    }


def _alternative(name: str, word: str, members: Sequence[str]) -> Schema:
    own = {each.removesuffix("?"): True for each in members}
    return {
        "properties": {name: {"const": word}, **own},
        "required": [name, *(each for each in members if not each.endswith("?"))],
        "additionalProperties": False,
    }


def _points(width: int, height: int) -> dict[str, Schema]:
    """Return the members that are points of a screen."""
    point = [{"type": "integer", "minimum": 0, "maximum": size - 1} for size in (width, height)]

    def pixels(description: str, items: list[Schema]) -> Schema:
        sizes = {"minItems": len(items), "maxItems": len(items)}
        return {"type": "array", "description": description, "prefixItems": items, **sizes}

    return {
        "coordinate": pixels("x and y, in pixels from the left and the upper edge.", point),
        "start_coordinate": pixels("x and y where a drag begins.", point),
        "region": pixels("x0, y0, x1, y1 of the part of the screen to show.", point * 2),
    }


def _count(fields: Fields, name: str, limit: int) -> int:
    count = as_integer(fields.values.get(name))
    if count is None or not 1 <= count <= limit:
        raise fields.wrong(name, f"an integer from 1 to {limit:,}")
    return count


_GIVEN = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
TABLE = {kind: ClientTool(**row) for kind, row in _GIVEN.items() if not kind.startswith(".")}
"""By type."""
FAMILIES = sorted({kind.rpartition("_")[0] for kind in TABLE})


class ClientToolsInMessages(MessagesFeature):
    TYPES = re.compile(rf"(?:{'|'.join(FAMILIES)})_[^_]*|(?:{'|'.join(TOOLSETS)}).*", re.DOTALL)

    def function(self, entry: Fields, kind: str) -> dict[str, Any]:
        if (tool := TABLE.get(kind)) is None:
            raise self._unknown(entry, kind)
        check_entry(entry, (*COMMON_FIELDS, *tool.fields))
        if entry.values.get("name") != tool.name:
            problem = f"must be {tool.name!r}: tools of the type {kind!r} have this name."
            raise entry.refusal("name", problem, InvalidTools)
        return tool.function(entry)

    def _unknown(self, entry: Fields, kind: str) -> Exception:
        family = kind.rpartition("_")[0]
        if family in FAMILIES:
            known = (each for each in TABLE if each.rpartition("_")[0] == family)
            advice = f"Use {' or '.join(known)}."
            return entry.refusal("type", f"is {kind!r}, a version that is not supported. {advice}")
        return entry.refusal(
            "type",
            f"is {kind!r}, a set of tools whose schemas only Anthropic's models know. Offer "
            "tools with a name, a description and an 'input_schema' instead.",
        )
