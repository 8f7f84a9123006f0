"""The tools by their types: one entry for each version that Anthropic has published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from toolgate_core.errors import InvalidTools

from ....request_fields import Fields, as_integer
from .computer import ACTIONS_20241022, ACTIONS_20250124, ZOOM, computer_schema, computer_words
from .files import MEMORY, TEXT_EDITOR, UNDO, editor_schema, memory_schema
from .schemas import Command, Schema, member

COMMON_FIELDS = ("type", "name", "strict", "cache_control", "input_examples", "defer_loading")
"""Fields of the entries of all types."""
DISPLAY = ("display_width_px", "display_height_px", "display_number")
MAX_PIXELS = 100_000
BASH = (
    "Runs a command in a bash session and returns its output. The session is kept: the working "
    "directory, variables and files are there in the next call. Commands can't ask for input."
)
BASH_INPUT: Schema = {
    "type": "object",
    "properties": {
        "command": member("string", "The command to run. Empty with `restart`."),
        "restart": member("boolean", "true begins a new session instead of running a command."),
    },
    "required": ["command"],
    "additionalProperties": False,
}
OLD_EDITOR, EDITOR = "str_replace_editor", "str_replace_based_edit_tool"


@dataclass(frozen=True)
class Definition:
    """What the model is offered."""

    description: str
    parameters: Schema


@dataclass(frozen=True)
class ClientTool:
    name: str
    """The only name that the type may have."""
    define: Callable[[Fields], Definition]
    """Makes the definition from the entry."""
    fields: tuple[str, ...] = ()
    """Further fields of the entry."""


def _fixed(definition: Definition, _fields: Fields) -> Definition:
    return definition


def _tool(name: str, description: str, parameters: Schema) -> ClientTool:
    return ClientTool(name, partial(_fixed, Definition(description, parameters)))


def _editor(fields: Fields) -> Definition:
    words, schema = TEXT_EDITOR, editor_schema(inserted="insert_text", undo=False)
    if fields.values.get("max_characters") is not None:
        shown = _count(fields, "max_characters", 10**9)
        words = f"{words} A view has at most {shown:,} characters: use `view_range`."
    return Definition(words, schema)


def _computer(actions: dict[str, Command], fields: Fields) -> Definition:
    width, height = (_count(fields, name, MAX_PIXELS) for name in DISPLAY[:2])
    number = as_integer(fields.values.get("display_number"))
    words = computer_words(width, height)
    if number is not None:
        words = f"{words} The display's number is {number}."
    more = ZOOM if fields.flag("enable_zoom") else {}
    return Definition(words, computer_schema({**actions, **more}, width, height))


def _count(fields: Fields, name: str, limit: int) -> int:
    count = as_integer(fields.values.get(name))
    if count is None or not 1 <= count <= limit:
        raise fields.wrong(name, f"an integer from 1 to {limit:,}")
    return count


TABLE = {
    "bash_20241022": _tool("bash", BASH, BASH_INPUT),
    "bash_20250124": _tool("bash", BASH, BASH_INPUT),
    "text_editor_20241022": _tool(
        OLD_EDITOR, TEXT_EDITOR + UNDO, editor_schema(inserted="new_str", undo=True)
    ),
    "text_editor_20250124": _tool(
        OLD_EDITOR, TEXT_EDITOR + UNDO, editor_schema(inserted="new_str", undo=True)
    ),
    "text_editor_20250429": _tool(
        EDITOR, TEXT_EDITOR, editor_schema(inserted="new_str", undo=False)
    ),
    "text_editor_20250728": ClientTool(EDITOR, _editor, ("max_characters",)),
    "memory_20250818": _tool("memory", MEMORY, memory_schema()),
    "computer_20241022": ClientTool("computer", partial(_computer, ACTIONS_20241022), DISPLAY),
    "computer_20250124": ClientTool("computer", partial(_computer, ACTIONS_20250124), DISPLAY),
    "computer_20251124": ClientTool(
        "computer", partial(_computer, ACTIONS_20250124), (*DISPLAY, "enable_zoom")
    ),
}
"""By type."""


def client_tool(fields: Fields) -> dict[str, Any] | None:
    """Return the function that stands for a tool of the table, in OpenAI's form; None for other
    tools. Raises InvalidRequest and InvalidTools."""
    tool = TABLE.get(fields.text("type") or "")
    if tool is None:
        return None
    if fields.values.get("name") != tool.name:
        where = fields.path("name")
        raise InvalidTools(
            f"{where!r} must be {tool.name!r}: tools of the type {fields.text('type')!r} have "
            "this name.",
            param=where,
        )
    made = tool.define(fields)
    return {"name": tool.name, "description": made.description, "parameters": made.parameters}


def known_fields(kind: str | None) -> tuple[str, ...] | None:
    """Return the fields of an entry of this type; None if the table does not have the type."""
    tool = TABLE.get(kind or "")
    return None if tool is None else COMMON_FIELDS + tool.fields


def versions(kind: str) -> tuple[str, ...]:
    """Return the types that differ from `kind` in the date only."""
    family = kind.rpartition("_")[0]
    return tuple(known for known in TABLE if known.rpartition("_")[0] == family)
