"""The ids of earlier calls in the form that a model's chat template needs.

A conversation may have begun on another model. Families that write ids into the text of calls
expect the ids of earlier calls in their own form, so the ids of such a conversation are replaced.
Results keep their calls: the parsers of all APIs give each call an id, and each result that of its
call.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from typing import Any

from toolgate_core.dialects.dialect import CallIds, Dialect

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
Message = dict[str, Any]


def with_family_ids(messages: Sequence[Message], dialect: Dialect) -> tuple[Message, ...]:
    """The messages with the ids of the dialect. Unchanged if the family writes no ids, or if all
    ids are of its form already."""
    ids = dialect.calls.ids if dialect.calls else None
    if ids is None:
        return tuple(messages)
    return tuple(_Renaming(ids).renamed(messages))


class _Renaming:
    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._number = ids.first
        self._new: dict[str, str] = {}
        """By id in the request: the id that the template gets. A repeated id is that of the last
        call."""

    def renamed(self, messages: Iterable[Message]) -> Iterable[Message]:
        for message in messages:
            if message.get("role") == "assistant" and message.get("tool_calls"):
                yield message | {"tool_calls": self._calls(message["tool_calls"])}
            elif message.get("role") == "tool":
                yield message | {"tool_call_id": self._new[message["tool_call_id"]]}
            else:
                yield message

    def _calls(self, calls: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
        if self._ids.kind == "turn":
            self._number = self._ids.first
        renamed = []
        for call in calls:
            new = self._new[call["id"]] = self._new_id(call["function"]["name"], call["id"])
            self._number += 1
            renamed.append(call | {"id": new})
        return renamed

    def _new_id(self, name: str, old: str) -> str:
        if self._ids.kind == "random":
            text = old if self._has_form(old) else _digest(old, self._ids.length)
        else:
            text = str(self._number)
        return self._ids.form.replace("{name}", name).replace("{id}", text)

    def _has_form(self, text: str) -> bool:
        return re.fullmatch(f"[A-Za-z0-9]{{{self._ids.length}}}", text) is not None


def _digest(text: str, length: int) -> str:
    """A text of letters and digits that is the same for the same id in every request, so that the
    prefix cache is used."""
    number = int.from_bytes(hashlib.sha256(text.encode(errors="replace")).digest(), "big")
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)
