"""The content of messages and of results of calls: text, or an array of parts."""

from __future__ import annotations

from typing import Any

from toolgate_core.errors import UnsupportedParameter

from ...request_fields import Fields, invalid_value
from ..shared.documents import FILE_ID, FILE_URL, read_file, refuse_references
from ..shared.history import History

Content = str | list[dict[str, Any]]
PART_FIELDS = {
    "input_text": ("text",),
    "output_text": ("text", "annotations", "logprobs"),
    "refusal": ("refusal",),
    "input_image": ("image_url", "detail", "file_id"),
    "input_file": ("file_data", "filename", "detail", "file_id", "file_url"),
}
"""By type of part: its fields. Those of a response's parts may be sent back."""
IGNORED_FIELDS = ("type", "prompt_cache_breakpoint")
KINDS = {
    "assistant": ("output_text", "refusal", "input_text"),
    "user": ("input_text", "input_image", "input_file", "output_text"),
    "system": ("input_text", "output_text"),
    "tool": ("input_text", "input_image", "input_file", "output_text"),
}
"""By role: the types of parts. Some clients send `output_text` and `input_text` with any role."""
FOREIGN_ROLES = ("assistant", "tool")
"""Roles whose content models and tools have written."""


def read_content(fields: Fields, name: str, role: str, history: History) -> Content:
    """The content in the form of chat templates. Raises InvalidRequest and UnsupportedParameter."""
    content = fields.values.get(name)
    if isinstance(content, str):
        return content
    if content is None and role in FOREIGN_ROLES:
        return ""
    path = fields.path(name)
    if not isinstance(content, list):
        raise invalid_value(path, "a string or an array of content parts", content)
    parts = (_part(part, f"{path}[{at}]", role, history) for at, part in enumerate(content))
    return [part for part in parts if part is not None]


def _part(part: object, path: str, role: str, history: History) -> dict[str, Any] | None:
    """None for a part that is left out."""
    if not isinstance(part, dict):
        raise invalid_value(path, "an object", part)
    fields = Fields(part, path)
    kind = fields.text("type")
    if kind is None:
        raise fields.wrong("type", "the type of a content part")
    if role == "tool":
        return _result_part(fields, kind, history)
    if role == "assistant" and kind not in KINDS[role]:
        shown = history.text(part, path)
        return {"type": "text", "text": shown} if shown else None
    if kind not in KINDS[role]:
        raise UnsupportedParameter(
            f"A content part of the type {kind!r} is not supported in a message of the role "
            f"{role}. Use {' or '.join(KINDS[role][:2])}.",
            param=f"{path}.type",
        )
    return _known_part(fields, kind, history)


def _result_part(fields: Fields, kind: str, history: History) -> dict[str, Any]:
    """A part of the result of a call, or the text that stands for it."""
    if kind in KINDS["tool"]:
        try:
            return _known_part(fields, kind, history)
        except UnsupportedParameter:
            pass  # a file that is not in the request, or of another type
    return {"type": "text", "text": history.result_text(fields.values, fields.place)}


def _known_part(fields: Fields, kind: str, history: History) -> dict[str, Any]:
    history.note_unknown(fields, (*PART_FIELDS[kind], *IGNORED_FIELDS))
    if kind == "input_image":
        return _image(fields)
    if kind == "input_file":
        refuse_references(fields, {"file_id": FILE_ID, "file_url": FILE_URL}, "file_data")
        return read_file(fields, "file_data", fields, title=fields.text("filename"))
    name = "refusal" if kind == "refusal" else "text"
    text = fields.text(name)
    if text is None:
        raise fields.wrong(name, "a string")
    return {"type": "text", "text": text}


def _image(fields: Fields) -> dict[str, Any]:
    """`detail` has no effect."""
    if fields.values.get("file_id") is not None:
        path = fields.path("file_id")
        raise UnsupportedParameter(
            f"{path!r} is not supported, because files are not stored. Use image_url.",
            param=path,
        )
    url = fields.text("image_url")
    if not url:
        raise fields.wrong("image_url", "the image's URL or a data URI")
    return {"type": "image_url", "image_url": {"url": url}}
