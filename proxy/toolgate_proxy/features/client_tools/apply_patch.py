"""`apply_patch`: changes to files that the client makes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...api.shared.tools import closed, typed
from .tool import BuiltinTool, Event, Member, present

WORDS = """Creates, updates or deletes one file.
`create_file`: each line of `diff` is `+` and a line of the new file.
`update_file`: `diff` has one or more sections. A section begins with the line `@@`, or with `@@ ` \
and a line of the file above the change, such as the head of its function. Then come about three \
lines before the change, the change, and about three lines after it. Each line begins with a space \
(it stays), `-` (it is removed) or `+` (it is added). Lines are as in the file, with their \
indentation. There are no line numbers and no names of files.
`delete_file` has no `diff`."""
FIELDS = ("type", "path", "diff")
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


def _deltas(operation: Member) -> Iterator[Event]:
    if "diff" not in operation:
        return
    kind, diff = "response.apply_patch_call_operation_diff", operation["diff"]
    yield {"type": f"{kind}.delta", "delta": diff}
    yield {"type": f"{kind}.done", "diff": diff}


def _to_text(item: Mapping[str, Any]) -> str:
    """Templates have no field for a failed call, so the text says it."""
    output, failed = item.get("output"), item.get("status") == "failed"
    if isinstance(output, str) and output:
        return f"Error: {output}" if failed else output
    return "Error" if failed else "Done"


APPLY_PATCH = BuiltinTool(
    type="apply_patch",
    describe=lambda _: WORDS,
    parameters=closed({"operation": OPERATION}),
    call="apply_patch_call",
    prefix="apc",
    member="operation",
    to_member=lambda arguments: present(arguments["operation"], FIELDS),
    to_arguments=lambda operation: {"operation": present(operation, FIELDS)},
    to_text=_to_text,
    begun=lambda operation: operation | ({"diff": ""} if "diff" in operation else {}),
    deltas=_deltas,
)
