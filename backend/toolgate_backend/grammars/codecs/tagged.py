"""The grammar of arguments in tags, in any order."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from toolgate_core.dialects.arguments.parser import PATTERNS
from toolgate_core.dialects.dialect import FlatTags
from toolgate_core.dialects.marks import Marks
from toolgate_core.pointer import escape
from toolgate_core.schema.types import TypeReader, argument_types

from ...errors import GrammarRefused, NotRepresentable
from . import nodes
from .raw_strings import RawStrings, exactly, further_names
from .rules import MAX_UNORDERED, OTHERS, GrammarRules, encoded_literal, quoted, tag_text

_OBJECT_KEYWORDS = frozenset({"type", "$defs", *nodes.OF_OBJECTS})
_SCALARS = frozenset({"null", "boolean", "integer", "number"})
_CONTAINERS = frozenset({"object", "array"})
_FIRST_CHARACTERS = {"object": r"\{", "array": r"\["}
_KEY = r"[^\x00-\x20<>\"'&=|]"
"""A character of a key that is written without an escape."""


class TaggedGrammar:
    """Makes the rules of the arguments. `schema` is the prepared schema of the tool's parameters,
    `typed_by` the canonical one, by which the client's gateway reads the values."""

    def __init__(
        self, codec: FlatTags, schema: dict[str, Any], marks: Marks, typed_by: Mapping[str, Any]
    ) -> None:
        """Raise GrammarRefused."""
        schema = nodes.without_root_references(schema)
        self._codec = codec
        self._schema = schema
        self._marks = marks
        self._typed_by = typed_by
        self._definitions = schema.get("$defs", {})
        self.rules = GrammarRules()
        end, close = marks.encode(codec.end), marks.encode(codec.close)
        self._strings = RawStrings(self.rules, end, close, marks, cdata=codec.cdata)
        self._end = self._strings.end
        self._options = {
            "whitespace_flexible": False,
            "item_separator": codec.item_separator,
            "key_separator": codec.key_separator,
        }
        objects = [
            each for each in nodes.alternatives(schema, schema) if "object" in nodes.types(each)
        ]
        ways = [self._object(each) for each in objects]
        if not ways:
            raise GrammarRefused("no object satisfies it", "")
        self.rules.define("arguments", " | ".join(ways))

    def _object(self, schema: dict[str, Any]) -> str:
        """Return the arguments of one alternative of the schema."""
        if beyond := sorted(schema.keys() - _OBJECT_KEYWORDS):
            raise GrammarRefused(f"{beyond[0]!r} of arguments in tags", f"/{escape(beyond[0])}")
        if "properties" not in schema and "properties" in self._typed_by:  # left to validation
            kept = ("properties", "required")
            declared = {key: self._typed_by[key] for key in kept if key in self._typed_by}
            declared["properties"] = dict.fromkeys(declared["properties"], True)
            schema = schema | declared
        required = set(schema.get("required", ()))
        arguments: list[tuple[str, bool]] = []
        for name, value in nodes.declared_members(schema).items():
            rule = self._argument(name, value, needed=name in required)
            if rule is not None:
                arguments.append((rule, name in required))
        other = self._further_arguments(nodes.further_members(schema))
        if 1 <= len(arguments) <= MAX_UNORDERED:
            return self.rules.any_order(arguments, other, "", nodes.member_counts(schema))
        if any(keyword in schema for keyword in nodes.MEMBER_COUNTS):
            raise GrammarRefused("the number of arguments in order", "")
        ordered = [rule if needed else f"{rule}?" for rule, needed in arguments]
        ordered.append(f"{other}*" if other else '""')
        return self.rules.add("ordered", " ".join(ordered))

    def _argument(self, name: str, schema: Any, *, needed: bool) -> str | None:
        """Return the rule of one argument; None if it cannot be written and is optional."""
        pointer = f"/properties/{escape(name)}"
        after_key = self._codec.middle.partition("{type}")[0]
        key = name
        for char, written in self._codec.escapes:
            key = key.replace(char, written)
        begin = self._marks.encode(self._codec.begin)
        encoded_key = begin + key + self._marks.encode(after_key)
        if self._cannot_be_key(key, after_key):
            if needed:
                raise NotRepresentable(
                    f"the model's form of calls has no text for the name {name[:60]!r}", pointer
                )
            return None
        try:
            values = self._values(name, schema)
        except GrammarRefused as refused:
            raise GrammarRefused(refused.reason, pointer + refused.pointer) from refused
        if not values:
            if needed:
                raise NotRepresentable(
                    "the model's form of calls has no text for any value", pointer
                )
            return None
        text = tag_text(argument_types(self._typed_by, name))
        self.rules.tags[key.encode(errors="replace")] = text
        written = encoded_literal(encoded_key, self._marks)
        return self.rules.add("argument", f"{written} ({' | '.join(values)})")

    def _cannot_be_key(self, key: str, after_key: str) -> bool:
        return not key or after_key[0] in key or "\n" in key or self._codec.close in key

    def _values(self, name: str, schema: Any) -> list[str]:
        """Return the rules of the values of an argument, each with the text after the key's."""
        ways = nodes.alternatives(schema, self._schema)
        if not self._codec.types:
            return self._of_kinds(name, ways, argument_types(self._typed_by, name))
        after = encoded_literal(
            self._marks.encode(self._codec.middle.partition("{type}")[2]), self._marks
        )
        attributes: dict[str, set[str]] = {}
        for kind, attribute in self._codec.types:
            attributes.setdefault(attribute, set()).add(kind)
        return [
            f"{quoted(attribute)} {after} {way}"
            for attribute, kinds in attributes.items()
            for way in self._of_kinds(name, ways, frozenset(kinds & {"string"} or kinds))
        ]

    def _of_kinds(self, name: str, ways: list[dict[str, Any]], kinds: frozenset[str]) -> list[str]:
        if "string" not in kinds:
            kept = [each for each in (nodes.restricted(one, kinds) for one in ways) if each]
            return [f"{self._json(kept)} {self._end}"] if kept else []
        if kinds == {"string"}:
            return self._texts(ways, ())
        return [*self._texts(ways, self._read_as_json(kinds)), *self._others(name, ways, kinds)]

    def _texts(self, options: list[dict[str, Any]], forbidden: Sequence[str]) -> list[str]:
        strings = [nodes.restricted(one, frozenset({"string"})) for one in options]
        ways = [self._strings.value(each, forbidden) for each in strings if each]
        return [way for way in ways if way]

    def _read_as_json(self, kinds: frozenset[str]) -> list[str]:
        """Regular expressions of the texts that are read as JSON where strings are allowed too."""
        scalars = [PATTERNS[kind] for kind in PATTERNS if kind in kinds]
        begins = [first for kind, first in _FIRST_CHARACTERS.items() if kind in kinds]
        return scalars + [f"{first}(?s:.*)" for first in begins]

    def _others(self, name: str, options: list[dict[str, Any]], kinds: frozenset[str]) -> list[str]:
        """Return the rules for non-string values where raw text is also allowed. Scalars are one
        terminal with their end, because raw text would be preferred to them, and have no bounds."""
        ways = []
        scalars: dict[str, None] = {}
        has_bounds = False
        for one in options:
            other = nodes.restricted(one, kinds & _SCALARS)
            if other is None:
                continue
            has_bounds = has_bounds or not other.keys().isdisjoint(nodes.BOUNDS)
            values = nodes.listed(other)
            if values is None:
                scalars |= dict.fromkeys(
                    PATTERNS[kind] for kind in PATTERNS if kind in nodes.types(other)
                )
            else:
                scalars |= dict.fromkeys(exactly(json.dumps(value)) for value in values)
        if has_bounds:
            schema = self._typed_by.get("properties", {}).get(name, {})
            self.rules.leave(schema, sorted(nodes.BOUNDS), f"/properties/{escape(name)}")
        if scalars:
            ways.append(self._strings.scalars([*scalars]))
        containers = [nodes.restricted(one, kinds & _CONTAINERS) for one in options]
        some = [other for other in containers if other]
        if some:
            ways.append(f"{self._json(some)} {self._end}")
        return ways

    def _json(self, ways: list[dict[str, Any]]) -> str:
        schema = ways[0] if len(ways) == 1 else {"anyOf": ways}
        return self.rules.json(schema, self._definitions, self._options)

    def _further_arguments(self, further: nodes.FurtherMembers | None) -> str:
        """Return the rule of an argument that the schema does not declare; empty if there is none,
        or if the types of its values depend on its name."""
        combined = TypeReader(self._typed_by).combined(self._typed_by)
        if further is None or any("patternProperties" in each for each in combined):
            return ""
        probe = "undeclared"
        while probe in further.declared:
            probe += "_"
        self.rules.tags[OTHERS] = tag_text(argument_types(self._typed_by, probe))
        begin = encoded_literal(self._marks.encode(self._codec.begin), self._marks)
        after_key = self._codec.middle.partition("{type}")[0]
        after = encoded_literal(self._marks.encode(after_key), self._marks)
        values = self._values(probe, further.schema)
        key = further_names(self.rules, further, f"{_KEY}{{1,64}}", f"{_KEY}+")
        if not (values and key):
            return ""
        return self.rules.add("further", f"{begin} {key} {after} ({' | '.join(values)})")
