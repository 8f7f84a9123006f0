"""The grammar of `{key:value,…}` with bare keys, and strings between two marks."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from toolgate_core.dialects.dialect import GemmaValues
from toolgate_core.dialects.marks import Marks

from .nodes import Array, FurtherMembers, Node, Object, Text, Values
from .raw_strings import RawStrings, further_names
from .rules import quoted
from .structured import StructuredGrammar

_BARE_KEY = r"[^\s:,{}\[\]<>\"|]+"
_UNDECLARED_KEY = "[A-Za-z_][A-Za-z0-9_.-]{0,63}"


class GemmaGrammar(StructuredGrammar):
    separator = ","

    def __init__(
        self, codec: GemmaValues, schema: dict[str, Any], marks: Marks, typed_by: Mapping[str, Any]
    ) -> None:
        self._codec = codec
        self._marks = marks
        self._quote = marks.encode(codec.quote)
        super().__init__(schema, marks, typed_by)

    @property
    def _strings(self) -> RawStrings:
        return RawStrings(self.rules, self._quote, self._quote, self._marks, cdata=False)

    def has_text(self, node: Node) -> bool:
        if isinstance(node, Text):
            return self._strings.value({"type": "string", **node.schema}) is not None
        return not isinstance(node, Values) or self._is_writable(node.values[0])

    def _is_writable(self, value: Any) -> bool:
        if isinstance(value, str):
            return self._codec.quote not in value and not _overlaps(value, self._codec.quote)
        if isinstance(value, list):
            return all(map(self._is_writable, value))
        if isinstance(value, dict):
            names = all(map(self.can_be_key, value))
            return names and all(map(self._is_writable, value.values()))
        return not isinstance(value, float) or math.isfinite(value)

    def can_be_key(self, name: str) -> bool:
        return bool(name) and self._is_writable(name)

    def text(self, node: Text) -> str:
        written = self._strings.value({"type": "string", **node.schema})
        assert written is not None
        return f"{self._mark} {written}"

    def literal(self, value: Any) -> str:
        if isinstance(value, str):
            return " ".join(filter(None, [self._mark, self._raw(value), self._mark]))
        if isinstance(value, list):
            return self._joined("[", [self.literal(each) for each in value], "]")
        if isinstance(value, dict):
            members = sorted(value.items(), key=_template_order)
            return self._joined(
                "{", [f"{self._key(name)} {self.literal(each)}" for name, each in members], "}"
            )
        return quoted(json.dumps(value))

    def container(self, node: Object | Array) -> str:
        if isinstance(node, Array):
            return self.rules.add("array", f'"[" {self.items(node)} "]"')
        members = sorted(node.members, key=lambda each: _template_order((each.name, None)))
        node = replace(node, members=tuple(members))
        return self.rules.add("object", f'"{{" {self.members(node)} "}}"')

    def outermost(self, arguments: str) -> str:
        return f'"{{" {arguments} "}}"' if self._codec.braces else arguments

    def member(self, name: str, value: str) -> str:
        return f"{self._key(name)} {value}"

    def further_member(self, names: FurtherMembers, value: str) -> str | None:
        key = further_names(self.rules, names, _UNDECLARED_KEY, _BARE_KEY, ":")
        return f"{key} {value}" if key else None

    def _key(self, name: str) -> str:
        """Return a key with the colon. As a string, if readers could not find its end."""
        if re.fullmatch(_BARE_KEY, name):
            return quoted(f"{name}:")
        return f'{self._mark} {self._raw(name)} {self._mark} ":"'

    @property
    def _mark(self) -> str:
        return self.literal_text(self._codec.quote)

    def _raw(self, text: str) -> str:
        return quoted(text) if text else ""

    def _joined(self, begin: str, parts: list[str], end: str) -> str:
        return " ".join([quoted(begin), ' "," '.join(parts), quoted(end)])


def _template_order(member: tuple[str, Any]) -> str:
    """Chat templates sort keys without regard to case."""
    return member[0].lower()


def _overlaps(text: str, quote: str) -> bool:
    """Return whether the text and the quote mark after it have an earlier quote mark."""
    return (text + quote).find(quote) < len(text)
