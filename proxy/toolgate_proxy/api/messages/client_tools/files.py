"""The inputs of the tools that edit files: the text editor and memory."""

from __future__ import annotations

from .schemas import Command, Schema, command_schema, member

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
