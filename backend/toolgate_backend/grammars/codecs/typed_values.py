"""The grammars of arguments whose text shows the type of each value: `{key:value,…}` with bare keys
and strings between two marks, and keyword arguments of a Python call.

A string of Python can have either quotation mark, because models use both. In double quotation
marks it is JSON, with those escapes that Python has too.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, ClassVar

from toolgate_core.dialects.dialect import GemmaValues, Pythonic

from ...errors import GrammarRefused
from .nodes import Array, FurtherMembers, Node, Object, Text, Values
from .raw_strings import RawStrings, further_names, patterns_of, undeclared
from .rules import quoted
from .structured import StructuredGrammar

_BARE_KEY = r"[^\s:,{}\[\]<>\"|]+"
_UNDECLARED_KEY = "[A-Za-z_][A-Za-z0-9_.-]{0,63}"


class GemmaGrammar(StructuredGrammar):
    separator = ","
    _codec: GemmaValues

    @cached_property
    def _strings(self) -> RawStrings:
        quote = self._marks.encode(self._codec.quote)
        return RawStrings(self.rules, quote, quote, self._marks, cdata=False)

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


ESCAPES = 'nrbtf\\"'
"""The escapes of JSON strings that are also Python's. Python has no `\\/`, and reads a surrogate
pair of `\\u` as two characters."""
_CHAR = r"(?:[^'\\\x00-\x1f]|\\[nrbtf\\'])"
_PLAIN = r"[^'\\\x00-\x1f]"
_NAME = r"""[^\s=,:()'"\[\]{}]+"""
_UNDECLARED_NAME = "[A-Za-z_][A-Za-z0-9_]{0,63}"
_BACKSLASH = "\\"


class PythonicGrammar(StructuredGrammar):
    options: ClassVar[Mapping[str, Any]] = {
        "whitespace_flexible": False,
        "item_separator": ", ",
        "key_separator": ": ",
        "json_allowed_escapes": ESCAPES,
    }

    _codec: Pythonic

    def has_text(self, node: Node) -> bool:
        return not isinstance(node, Values) or _is_writable(node.values[0])

    def can_be_key(self, name: str) -> bool:
        return True  # of a dict

    def can_be_argument(self, name: str) -> bool:
        return re.fullmatch(_NAME, name) is not None

    def text(self, node: Text) -> str:
        double = self.json({"type": "string", **node.schema})
        single = self._single_quoted(node.schema)
        return self.one_of([single, double]) if single else double

    def _single_quoted(self, schema: dict[str, Any]) -> str | None:
        """Return the rule of a string in single quotation marks; None if there is none. With a
        pattern, it has no escapes, because a pattern does not match them."""
        try:
            patterns = patterns_of(schema)
        except GrammarRefused:
            return None
        least, most = int(schema.get("minLength", 0)), schema.get("maxLength")
        upper = "" if most is None else int(most)
        length = f"{{{least},{upper}}}" if least or most is not None else "*"
        if not patterns:
            return self.rules.add("STRING", f"/'{_CHAR}{length}'/")
        parts = [f"/'{_PLAIN}{length}'/", *(f"/'(?:{each})'/" for each in patterns)]
        names = [self.rules.add("TEXT", each) for each in parts]
        return self.rules.add("STRING", " & ".join(names))

    def literal(self, value: Any) -> str:
        if isinstance(value, str):
            return self.one_of([quoted(python_literal(value, mark)) for mark in "'\""])
        return quoted(python_literal(value, json_objects=self._codec.json_objects))

    def container(self, node: Object | Array) -> str:
        if isinstance(node, Array):
            return self.rules.add("array", f'"[" {self.items(node)} "]"')
        if self._codec.json_objects:
            return self.json(node.schema)
        return self.rules.add("object", f'"{{" {self.members(node)} "}}"')

    def argument(self, name: str, value: str) -> str:
        return f"{quoted(f'{name}=')} {value}"

    def further_argument(self, names: FurtherMembers, value: str) -> str | None:
        key = further_names(self.rules, names, _UNDECLARED_NAME, _NAME, "=")
        return f"{key} {value}" if key else None

    def member(self, name: str, value: str) -> str:
        return f'{self.literal(name)} ": " {value}'

    def further_member(self, names: FurtherMembers, value: str) -> str:
        if names.pattern is not None:
            return f'{self.text(Text({"pattern": names.pattern}))} ": " {value}'
        known = sorted(python_literal(name, mark) for name in names.declared for mark in "'\"")
        keys = rf"""/'{_PLAIN}{{0,64}}'|"[^"\\\x00-\x1f]{{0,64}}"/"""
        return f'{undeclared(self.rules, keys, known)} ": " {value}'


def python_literal(value: Any, mark: str = '"', *, json_objects: bool = False) -> str:
    """Return the literal of a value, with `mark` around its strings, which have the escapes of
    JSON; control characters without one are written as `\\x`. `json_objects`: dicts are JSON."""
    if isinstance(value, str):
        written = "".join(_escaped(char) for char in value)
        return f"{mark}{written.replace(mark, _BACKSLASH + mark)}{mark}"
    inside = partial(python_literal, mark=mark, json_objects=json_objects)
    if isinstance(value, list):
        return f"[{', '.join(map(inside, value))}]"
    if isinstance(value, dict) and not json_objects:
        members = (f"{inside(name)}: {inside(each)}" for name, each in value.items())
        return f"{{{', '.join(members)}}}"
    if value is None or isinstance(value, bool):
        return str(value)
    return json.dumps(value, ensure_ascii=False)


def _escaped(char: str) -> str:
    if char == '"':
        return char
    escape = json.dumps(char, ensure_ascii=False)[1:-1]
    return f"{_BACKSLASH}x{ord(char):02x}" if escape.startswith("\\u") else escape


def _is_writable(value: Any) -> bool:
    return not isinstance(value, float) or math.isfinite(value)
