"""Messages that items of `input` become, and their content: text, or an array of parts.

An item of an assistant's turn begins a new message where the current one already has its kind of
content.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_core.tools import Tool

from ...features.feature import ActiveFeatures
from ...request_fields import Fields, invalid_value
from ..shared.history import Content, Message, Part, Turn, Turns
from ..shared.tool_changes import ToolChanges, text_part

Define = Callable[[Sequence[object], str], tuple[Tool, ...]]


class ItemTurns(Turns):
    def __init__(self, features: ActiveFeatures[Any], define: Define) -> None:
        """`features`: those of the request. `define`: parses an array of tools at its path."""
        super().__init__(features.input.history, features.input.tools)
        self._features, self._define = features, define

    def begin(self, message: Message, path: str) -> Turn:
        if message["role"] != "system":
            self.tools.begin()
        return super().begin(message, path)

    def message(self, role: str, content: Content, path: str) -> None:
        if role == "system" and content:
            if isinstance(content, str):
                content = self.history.system(content, path)
            else:
                content = self.history.system_parts(content, path)
            if not content:
                return
        last = self.last("assistant") if role == "assistant" else None
        if last is not None and not last.has_content:
            last.message["content"] = content
        else:
            self.begin({"role": role, "content": content}, path)

    def result(self, call_id: str, content: Content, path: str, *, name: str = "") -> Turn:
        """Raise InvalidRequest for a result without a call, unless the name finds it."""
        if not name and not self.has_call(call_id):
            param = f"{path}.call_id"
            raise InvalidRequest(
                f"{param!r}: no function call with this call_id precedes it. Include that item in "
                "'input'.",
                param=param,
            )
        return super().result(call_id, content, path, name=name)

    def output(self, item: Fields) -> None:
        """Read the result of a call of a client's tool. Raise InvalidRequest and
        UnsupportedParameter."""
        call_id = item.required_text("call_id")
        self.result(call_id, read_content(item, "output", "tool", self._features), item.place)

    def replace_result(self, content: str, new: str) -> None:
        """Replace the content of a result."""
        for turn in self._turns:
            if turn.message["role"] == "tool" and turn.message["content"] == content:
                turn.message["content"] = new

    def defined(self, item: Fields) -> tuple[Tool, ...]:
        """Parse the tools of an item."""
        return self._define(item.items("tools") or [], item.path("tools"))

    def additional(self, tools: Sequence[Tool], path: str) -> None:
        """Add tools that can be called from here on."""
        changes = ToolChanges(self.tools)
        changes.define(tools)
        if parts := changes.parts(heading=True):
            self.begin({"role": "system", "content": parts}, path)


PART_FIELDS = {
    "input_text": ("text",),
    "output_text": ("text", "annotations", "logprobs"),
    "refusal": ("refusal",),
    "input_image": ("image_url", "detail", "file_id"),
}
"""By type of part: its fields. Those of a response's parts may be sent back."""
IGNORED_FIELDS = ("type", "prompt_cache_breakpoint")
KINDS = {
    "assistant": ("output_text", "refusal", "input_text"),
    "user": ("input_text", "input_image", "output_text"),
    "system": ("input_text", "output_text"),
    "tool": ("input_text", "input_image", "output_text"),
}
"""By role: the types of parts. Some clients send `output_text` and `input_text` with any role."""
OF_CHAT = {"text": "input_text", "image_url": "input_image"}
"""By type of a part in chat completions: its type here."""
MEDIA_ROLES = ("user", "tool")
"""Roles whose content may have parts of features as well."""
FOREIGN_ROLES = ("assistant", "tool")
"""Roles whose content models and tools have written."""


def read_content(fields: Fields, name: str, role: str, features: ActiveFeatures[Any]) -> Content:
    """Return the content in the form of chat templates. Raise InvalidRequest and
    UnsupportedParameter."""
    content = fields.values.get(name)
    if isinstance(content, str):
        return content
    if content is None and role in FOREIGN_ROLES:
        return ""
    path = fields.path(name)
    if not isinstance(content, list):
        raise invalid_value(path, "a string or an array of content parts", content)
    parts = (_parts(part, f"{path}[{at}]", role, features) for at, part in enumerate(content))
    return [part for each in parts for part in each]


def _parts(part: object, path: str, role: str, features: ActiveFeatures[Any]) -> list[Part]:
    """Return the part, or the text that stands for it; none for a part that is left out."""
    fields, history = Fields.of(part, path), features.input.history
    kind = fields.given_text("type", "the type of a content part")
    kind = OF_CHAT.get(kind, kind)
    if kind in KINDS[role] or (role in MEDIA_ROLES and kind in features.parts):
        try:
            return _known_part(fields, kind, features)
        except UnsupportedParameter:  # a file that is not in the request, or of another type
            if role != "tool":
                raise
    if role in FOREIGN_ROLES:
        read_text = history.result_text if role == "tool" else history.text
        text = read_text(fields.values, path)
        return [text_part(text)] if text else []
    raise UnsupportedParameter(
        f"A content part of the type {kind!r} is not supported in a message of the role "
        f"{role}. Use {' or '.join(KINDS[role][:2])}.",
        param=f"{path}.type",
    )


def _known_part(fields: Fields, kind: str, features: ActiveFeatures[Any]) -> list[Part]:
    known = PART_FIELDS.get(kind) or features.parts[kind]
    features.input.history.note_unknown(fields, (*known, *IGNORED_FIELDS))
    if kind == "input_image":
        return [_image(fields)]
    if kind in PART_FIELDS:
        return [text_part(fields.given_text("refusal" if kind == "refusal" else "text"))]
    return features.part(fields, kind) or []


def _image(fields: Fields) -> dict[str, Any]:
    """`detail` has no effect."""
    if fields.values.get("file_id") is not None:
        problem = "is not supported, because files are not stored. Use image_url."
        raise fields.refusal("file_id", problem)
    if isinstance(given := fields.values.get("image_url"), dict):
        fields = Fields({"image_url": given.get("url")}, fields.place)
    url = fields.required_text("image_url", "the image's URL or a data URI")
    return {"type": "image_url", "image_url": {"url": url}}
