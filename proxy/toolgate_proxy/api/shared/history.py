"""How a damaged or foreign history is read: one rule for all APIs.

Clients send every earlier turn again, so a turn that is refused once ends its conversation. A part
of a turn that no template can show is therefore replaced or left out, and its place is noted for
the client. docs/api/chat.md has the rule.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from typing import Any

from toolgate_core.chat_request import Change, HistoryChange

from ...request_fields import Fields

THINKING = ("thinking", "redacted_thinking", "reasoning", "reasoning_text", "summary_text")
"""Types of content parts with reasoning of other services, which is no text of the turn."""
MAX_PLACES = 50
"""Most places of one kind that are noted. A header has no room for more."""
TEXT_MEMBERS = (
    "title",
    "text",
    "content",
    "source",
    "output",
    "outputs",
    "results",
    "logs",
    "stdout",
    "stderr",
    "error",
    "message",
)
"""Members of entries of other services that have text, or contain members that have it."""


class History:
    """The changes to one conversation."""

    def __init__(self) -> None:
        self._places: dict[Change, dict[str, None]] = {}

    @property
    def changes(self) -> tuple[HistoryChange, ...]:
        return tuple(
            HistoryChange(kind, path) for kind, paths in self._places.items() for path in paths
        )

    def note(self, kind: Change, path: str) -> None:
        places = self._places.setdefault(kind, {})
        if len(places) < MAX_PLACES:
            places[path] = None

    def arguments(self, given: object, path: str) -> str:
        """The arguments of a call, as the text of a JSON object. Templates iterate over the
        members, so they can't show anything else, such as the arguments of a cut call."""
        if isinstance(given, dict):
            return json.dumps(given, ensure_ascii=False)
        if given is None or given == "":
            return "{}"
        if isinstance(given, str) and _is_object(given):
            return given
        self.note("arguments", path)
        return "{}"

    def custom_input(self, given: object, path: str) -> str:
        """The input of a call of a custom tool, which is text."""
        if isinstance(given, str):
            return given
        self.note("arguments", path)
        return ""

    def note_unknown(self, fields: Fields, known: Container[str]) -> None:
        """Note the fields that are not in `known`, which the caller does not read."""
        for name, value in fields.values.items():
            if name not in known and value is not None:
                self.note("left_out", fields.path(name))

    def text(self, entry: Mapping[str, Any], path: str) -> str:
        """The text of an entry of another service; empty if it is left out."""
        text = "" if entry.get("type") in THINKING else text_of(entry)
        self.note("as_text" if text else "left_out", path)
        return text

    def result_text(self, part: Mapping[str, Any], path: str) -> str:
        """The text that stands for a part of the result of a call. The model should know of a part
        that it can't see."""
        return self.text(part, path) or f"[{part['type']} left out]"


def text_of(value: object) -> str:
    return "\n".join(_texts(value))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name in TEXT_MEMBERS:
            yield from _texts(value.get(name))
        if value.get("type") == "text":  # the source of a document
            yield from _texts(value.get("data"))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False
