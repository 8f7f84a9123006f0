"""bash, the text editor, memory and the computer of the Messages API."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from toolgate_core.errors import InvalidTools

from ...api.messages.feature import MessagesFeature, check_entry
from ...api.shared.tools import closed
from ...request_fields import Fields, as_integer

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


TEXT_EDITOR = (
    "Views, creates and edits text files. `view` shows a file with line numbers, or lists a "
    "directory. `create` writes a new file with `file_text`. `str_replace` replaces `old_str`, "
    "which must occur exactly once in the file, by `new_str`. `insert` adds text after the line "
    "`insert_line`."
)
UNDO = " `undo_edit` takes back the last edit of a file."
MEMORY = (
    "Reads and writes your notes: text files in the directory `/memories`, which outlast the "
    "conversation. View `/memories` before you begin a task, since earlier conversations may have "
    "left something that helps. Write down what later conversations need to know, and keep the "
    "notes short and up to date. `view` shows a file or lists a directory, `create` writes a file, "
    "`str_replace` replaces a text that occurs once, `insert` adds text after a line, `delete` "
    "removes a file or a directory, `rename` moves it."
)
COMMAND = "The command to run."
MAX_LINE = 10**9
RANGE: Schema = member(
    "array",
    "First and last line to view, from 1. -1 is the end of the file. Of files only.",
    prefixItems=[
        {"type": "integer", "minimum": 1, "maximum": MAX_LINE},
        {"type": "integer", "minimum": -1, "maximum": MAX_LINE},
    ],
    minItems=2,
    maxItems=2,
)
EDITS: dict[str, Schema] = {
    "path": member("string", "Absolute path of the file or directory.", minLength=1),
    "view_range": RANGE,
    "file_text": member("string", "The content of the new file."),
    "old_str": member("string", "The text to replace, exactly as it is in the file.", minLength=1),
    "new_str": member("string", "The text to put in its place, or to insert."),
    "insert_line": member(
        "integer",
        "The line after which text is inserted, 0 for the beginning.",
        minimum=0,
        maximum=MAX_LINE,
    ),
    "insert_text": member("string", "The text to insert."),
}
MEMORY_PATH: Schema = {"type": "string", "pattern": "^/memories(/.*)?$"}
MEMORIES: dict[str, Schema] = {
    **EDITS,
    "path": {**MEMORY_PATH, "description": "Path of the file or directory, in `/memories`."},
    "old_path": {**MEMORY_PATH, "description": "Path of what is moved."},
    "new_path": {**MEMORY_PATH, "description": "Its new path."},
}
VIEW = Command(("path",), ("view_range",))
CREATE = Command(("path", "file_text"))
REPLACE = Command(("path", "old_str", "new_str"))
INSERT = Command(("path", "insert_line", "insert_text"))


def editor_schema(*, inserted: str, undo: bool) -> Schema:
    """`inserted`: the member that has the text of `insert`, which versions name differently.
    `undo`: whether the version can take back an edit."""
    commands = {
        "view": VIEW,
        "create": CREATE,
        "str_replace": REPLACE,
        "insert": Command(("path", "insert_line", inserted)),
        **({"undo_edit": Command(("path",))} if undo else {}),
    }
    return command_schema("command", COMMAND, EDITS, commands)


def memory_schema() -> Schema:
    commands = {
        "view": VIEW,
        "create": CREATE,
        "str_replace": REPLACE,
        "insert": INSERT,
        "delete": Command(("path",)),
        "rename": Command(("old_path", "new_path")),
    }
    return command_schema("command", COMMAND, MEMORIES, commands)


CLICK = Command((), ("coordinate", "text"))
ACTIONS_20241022 = {
    "key": Command(("text",)),
    "type": Command(("text",)),
    "mouse_move": Command(("coordinate",)),
    "left_click": CLICK,
    "left_click_drag": Command(("coordinate",)),
    "right_click": CLICK,
    "middle_click": CLICK,
    "double_click": CLICK,
    "screenshot": Command(),
    "cursor_position": Command(),
}
ACTIONS_20250124 = {
    **ACTIONS_20241022,
    "left_click_drag": Command(("start_coordinate", "coordinate")),
    "triple_click": CLICK,
    "left_mouse_down": Command(),
    "left_mouse_up": Command(),
    "scroll": Command(("scroll_direction", "scroll_amount"), ("coordinate", "text")),
    "hold_key": Command(("text", "duration")),
    "wait": Command(("duration",)),
}
ZOOM = {"zoom": Command(("region",))}
"""An action that the entry of the tool has to enable."""
MAX_SECONDS = 100


def computer_words(width: int, height: int) -> str:
    return (
        f"Controls a computer with a screen of {width} by {height} pixels, with mouse and "
        "keyboard. Take a screenshot first to see where things are, and after an action to see "
        "its effect. Click on the middle of buttons, links and fields."
    )


def computer_schema(actions: dict[str, Command], width: int, height: int) -> Schema:
    point = [_pixel(width), _pixel(height)]
    members = {
        "coordinate": _pixels("x and y, in pixels from the left and the upper edge.", point),
        "start_coordinate": _pixels("x and y where a drag begins.", point),
        "region": _pixels("x0, y0, x1, y1 of the part of the screen to show.", point * 2),
        "text": member(
            "string",
            'The text to type, or the keys to press, such as "Return" or "ctrl+s". In clicks and '
            "scrolling: keys that are held meanwhile.",
        ),
        "scroll_direction": member(
            "string", "Where to scroll.", enum=["up", "down", "left", "right"]
        ),
        "scroll_amount": member("integer", "Clicks of the wheel.", minimum=0, maximum=1_000),
        "duration": member("integer", "Seconds.", minimum=0, maximum=MAX_SECONDS),
    }
    return command_schema("action", "The action to perform.", members, actions)


def _pixel(size: int) -> Schema:
    return {"type": "integer", "minimum": 0, "maximum": size - 1}


def _pixels(description: str, items: list[Schema]) -> Schema:
    size = len(items)
    return member("array", description, prefixItems=items, minItems=size, maxItems=size)


COMMON_FIELDS = ("type", "name", "strict", "cache_control", "input_examples", "defer_loading")
"""Fields of the entries of all types."""
DISPLAY = ("display_width_px", "display_height_px", "display_number")
MAX_PIXELS = 100_000
BASH = (
    "Runs a command in a bash session and returns its output. The session is kept: the working "
    "directory, variables and files are there in the next call. Commands can't ask for input."
)
BASH_INPUT = closed(
    {
        "command": member("string", "The command to run. Empty with `restart`."),
        "restart": member("boolean", "true begins a new session instead of running a command."),
    },
    "command",
)
OLD_EDITOR, EDITOR = "str_replace_editor", "str_replace_based_edit_tool"


Definition = tuple[str, Schema]
"""What the model is offered: a description, and the schema of the input."""


@dataclass(frozen=True)
class ClientTool:
    name: str
    """The only name that the type may have."""
    define: Callable[[Fields], Definition]
    """Makes the definition from the entry."""
    fields: tuple[str, ...] = ()
    """Further fields of the entry."""


def _tool(name: str, description: str, parameters: Schema) -> ClientTool:
    return ClientTool(name, lambda _: (description, parameters))


def _editor(fields: Fields) -> Definition:
    words, schema = TEXT_EDITOR, editor_schema(inserted="insert_text", undo=False)
    if fields.values.get("max_characters") is not None:
        shown = _count(fields, "max_characters", 10**9)
        words = f"{words} A view has at most {shown:,} characters: use `view_range`."
    return words, schema


def _computer(actions: dict[str, Command], fields: Fields) -> Definition:
    width, height = (_count(fields, name, MAX_PIXELS) for name in DISPLAY[:2])
    number = as_integer(fields.values.get("display_number"))
    words = computer_words(width, height)
    if number is not None:
        words = f"{words} The display's number is {number}."
    more = ZOOM if fields.flag("enable_zoom") else {}
    return words, computer_schema({**actions, **more}, width, height)


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


def versions(kind: str) -> tuple[str, ...]:
    """Return the types that differ from `kind` in the date only."""
    family = kind.rpartition("_")[0]
    return tuple(known for known in TABLE if known.rpartition("_")[0] == family)


TOOLSETS = ("computer_toolset_", "browser_toolset_")
"""Beginnings of the types of sets of tools that Anthropic defines and clients run."""
FAMILIES = sorted({kind.rpartition("_")[0] for kind in TABLE})


class ClientToolsInMessages(MessagesFeature):
    TYPES = re.compile(rf"(?:{'|'.join(FAMILIES)})_[^_]*|(?:{'|'.join(TOOLSETS)}).*", re.DOTALL)

    def function(self, entry: Fields, kind: str) -> dict[str, Any]:
        tool = TABLE.get(kind)
        if tool is None and (known := versions(kind)):
            advice = f"Use {' or '.join(known)}."
            raise entry.refusal("type", f"is {kind!r}, a version that is not supported. {advice}")
        if tool is None:
            raise entry.refusal(
                "type",
                f"is {kind!r}, a set of tools whose schemas only Anthropic's models know. Offer "
                "tools with a name, a description and an `input_schema` instead.",
            )
        check_entry(entry, COMMON_FIELDS + tool.fields)
        if entry.values.get("name") != tool.name:
            problem = f"must be {tool.name!r}: tools of the type {kind!r} have this name."
            raise entry.refusal("name", problem, InvalidTools)
        description, parameters = tool.define(entry)
        return {"name": tool.name, "description": description, "parameters": parameters}
