"""Members in any order for llguidance, by parametric rules of its Lark.

A parameter has one bit for each declared property, so no name is written twice, and the end needs
the bits of the required ones. All values without such objects inside stay llguidance's `%json`.

Texts are split as in `%json`: a name, a separator, a bracket. llguidance's lexer takes the longest
text, so that a longer one would exclude the same text in an alternative that is `%json`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from toolgate_core.schema.preparation.engine_form import has_large_numbers
from toolgate_core.schema.walk import at_pointer, pointer_of_ref

from ..codecs import nodes
from ..codecs.raw_strings import undeclared
from ..codecs.rules import MAX_UNORDERED, GrammarRules, exact_numbers, quoted

MAX_RULES = 400_000
"""Maximum length of the rules, in characters. Definitions are repeated in each value that uses
them."""
MAX_MERGED = 64
"""Maximum number of `allOf` that are merged. Merging may make new ones without end."""
KEY = r'/"([^"\\\x00-\x1f\x7f]|\\(["\\bfnrt]|u00[01][0-9a-f]))*"/'
"""A name as llguidance writes strings. No escape stands for a character of a plain name
(objects.py), so a name has one spelling."""


class TooLarge(Exception):
    """The rules would be longer than MAX_RULES."""


def member_rules(schema: dict[str, Any], options: Mapping[str, Any]) -> str | None:
    """Return the rules whose first is `arguments`; None if no object inside has an order. `schema`
    is in engine form, `options` are llguidance's. Raise TooLarge."""
    schema = nodes.without_root_references(schema)
    grammar = _Members(schema, options)
    if not grammar.has_order(schema):
        return None
    grammar.rules.define("arguments", grammar.value(grammar.schema))
    return grammar.rules.text


class _Members:
    def __init__(self, schema: dict[str, Any], options: Mapping[str, Any]) -> None:
        self.schema = schema
        self.rules = GrammarRules()
        self._options = {"x-guidance": dict(options)}
        self._definitions = schema.get("$defs", {})
        self._item = quoted(str(options["item_separator"]))
        self._colon = quoted(str(options["key_separator"]))
        self._references: dict[str, str] = {}
        self._merged: dict[str, dict[str, Any] | None] = {}
        self._known: dict[int, bool] = {}
        self._length = 0

    def has_order(self, node: Any) -> bool:
        """Return whether something is inside that `%json` cannot express: an object with several
        members, which can be in any order, or numbers beyond double precision."""
        if not isinstance(node, dict):
            return False
        if id(node) not in self._known:
            self._known[id(node)] = False  # for a schema inside itself
            self._known[id(node)] = self._has_order(node)
        return self._known[id(node)]

    def _has_order(self, node: dict[str, Any]) -> bool:
        target = self._target(node)
        if target is not None:
            return self.has_order(at_pointer(self.schema, target))
        if has_large_numbers(node):
            return True
        if only(node, "anyOf"):
            return any(map(self.has_order, node["anyOf"]))
        if only(node, "allOf"):
            return self.has_order(self._merge(node["allOf"]))
        if is_plain_object(node):
            names = nodes.declared_members(node)
            inside = [*names.values(), node.get("additionalProperties")]
            inside += node.get("patternProperties", {}).values()
            counted = bool(names) and any(keyword in node for keyword in nodes.MEMBER_COUNTS)
            return counted or len(names) > 1 or any(map(self.has_order, inside))
        return is_plain_array(node) and self.has_order(node["items"])

    def _target(self, node: dict[str, Any]) -> str | None:
        return pointer_of_ref(node["$ref"]) if only(node, "$ref") else None

    def _merge(self, parts: list[Any]) -> dict[str, Any] | None:
        """Return one object instead of an `allOf` of objects; None if there is none."""
        key = json.dumps(parts)
        if key not in self._merged:
            objects = [self._at_end(part) for part in parts]
            few = len(self._merged) < MAX_MERGED and all(isinstance(each, dict) for each in objects)
            self._merged[key] = merged(objects) if few else None
        return self._merged[key]

    def _at_end(self, node: Any) -> Any:
        """Return what a reference leads to."""
        for _ in range(MAX_MERGED):
            target = self._target(node) if isinstance(node, dict) else None
            if target is None:
                return node
            node = at_pointer(self.schema, target)
        return None

    def value(self, node: Any) -> str:
        if not self.has_order(node) or has_large_numbers(node):
            return self._json(node)
        target = self._target(node)
        if target is not None:
            return self._reference(target, at_pointer(self.schema, target))
        if only(node, "allOf"):
            return self._reference(json.dumps(node["allOf"]), self._merge(node["allOf"]))
        if "anyOf" in node:
            return self._one_of(node["anyOf"])
        if is_plain_array(node):
            return self._array(node)
        others = nodes.types(node) - {"object"}
        if "number" in others:
            others -= {"integer"}
        if not others:
            return self._object(node)
        rest = {k: v for k, v in node.items() if k not in nodes.OF_OBJECTS} | {
            "type": sorted(others)
        }
        return self.rules.add("value", f"{self._object(node)} | {self._json(rest)}")

    def _json(self, node: Any) -> str:
        schema = {} if node is True else {"not": {}} if node is False else dict(node)
        schema.pop("$defs", None)
        if (exact := exact_numbers(schema, self._options["x-guidance"])) is not None:
            return self.rules.add("json", exact)
        if '"$ref"' in json.dumps(schema):
            # llguidance allows no keywords next to a reference to a schema inside itself.
            wrapped = {"anyOf": [schema]} if "$ref" in schema else schema
            schema = {**wrapped, "$defs": self._definitions}
        text = f"%json {json.dumps(schema | self._options)}"
        self._length += len(text)
        if self._length > MAX_RULES:
            raise TooLarge
        return self.rules.add("json", text)

    def _reference(self, key: str, schema: Any) -> str:
        """Return the rule of a schema that several places may have, which may be inside itself."""
        if key not in self._references:
            name = self._references[key] = f"definition_{len(self._references)}"
            self.rules.define(name, self.value(schema))
        return self._references[key]

    def _one_of(self, options: list[Any]) -> str:
        ways = [self.value(each) for each in options if self.has_order(each)]
        rest = [each for each in options if not self.has_order(each)]
        if rest:
            ways.append(self._json({"anyOf": rest}))
        return self.rules.add("value", " | ".join(dict.fromkeys(ways)))

    def _array(self, node: dict[str, Any]) -> str:
        item, most = self.value(node["items"]), node.get("maxItems")
        if most == 0:
            return '"[" "]"'
        least, upper = int(node.get("minItems", 0)), None if most is None else int(most)
        items = self.rules.repeated(item, self._item, least, upper)
        return self.rules.add("array", f'"[" {items} "]"')

    def _object(self, node: dict[str, Any]) -> str:
        further = self._further(node)
        required = node.get("required", ())
        members = []
        for name, value in possible(node).items():
            body = f"{quoted(_name(name))} {self._colon} {self.value(value)}"
            members.append((self.rules.add("member", body), name in required))
        if members:
            inner = self.rules.any_order(members, further, self._item, nodes.member_counts(node))
        else:
            least, most = nodes.member_counts(node)
            some = "" if most == 0 else further
            inner = self.rules.repeated(some, self._item, least, most) if some else ""
        return self.rules.add("object", f'"{{" {inner} "}}"')

    def _further(self, node: dict[str, Any]) -> str | None:
        """Return an undeclared member; None if there may be none."""
        further = nodes.further_members(node)
        if further is None:
            return None
        body = f"{self._names(further)} {self._colon} {self.value(further.schema)}"
        return self.rules.add("further", body)

    def _names(self, names: nodes.FurtherMembers) -> str:
        if names.pattern is not None:
            return self._json({"type": "string", "pattern": names.pattern})
        return undeclared(self.rules, KEY, map(_name, sorted(names.declared)))


def _name(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


_OF_OTHER_TYPES = frozenset({*nodes.OF_ARRAYS, *nodes.BOUNDS, *nodes.OF_TEXT}) - {"allOf"}
_OF_PLAIN_ARRAYS = frozenset({"type", "items", "minItems", "maxItems", "$defs"})
_PLAIN = re.compile(r'[^"\\\x00-\x1f\x7f\ud800-\udfff]*')


def only(node: dict[str, Any], keyword: str) -> bool:
    return keyword in node and not node.keys() - {keyword, "$defs"}


def is_plain_array(node: dict[str, Any]) -> bool:
    return node.get("type") == "array" and "items" in node and not node.keys() - _OF_PLAIN_ARRAYS


def is_plain_object(node: dict[str, Any]) -> bool:
    """Return whether it is an object, among other types, whose members can be in any order."""
    present = node.keys() - {"type", "$defs"}
    if "object" not in nodes.types({k: v for k, v in node.items() if k == "type"}):
        return False
    if not present.intersection(nodes.OF_OBJECTS) or present.difference(
        nodes.OF_OBJECTS, _OF_OTHER_TYPES
    ):
        return False
    names = nodes.declared_members(node)
    if len(names) > MAX_UNORDERED or not all(map(_PLAIN.fullmatch, names)):
        return False
    return all(names[name] is not False for name in node.get("required", ()))


def possible(node: dict[str, Any]) -> dict[str, Any]:
    """Return the members with names that an object may have."""
    return {
        name: schema for name, schema in nodes.declared_members(node).items() if schema is not False
    }


def merged(parts: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return one object with the members of these, all of which it has to be; None if there is none
    that is plain."""
    if not all(nodes.types(part) == {"object"} and is_plain_object(part) for part in parts):
        return None
    if any(word in part for part in parts for word in ("patternProperties", *nodes.MEMBER_COUNTS)):
        return None
    names = dict.fromkeys(name for part in parts for name in nodes.declared_members(part))
    others = [part.get("additionalProperties", True) for part in parts]
    whole = {
        "type": "object",
        "properties": {
            name: _all(
                [nodes.declared_members(p).get(name, o) for p, o in zip(parts, others, strict=True)]
            )
            for name in names
        },
        "required": [*dict.fromkeys(n for part in parts for n in part.get("required", ()))],
        "additionalProperties": _all(others),
    }
    return whole if is_plain_object(whole) else None


def _all(schemas: list[Any]) -> Any:
    """Return a schema of the values that satisfy all of these."""
    if any(schema is False for schema in schemas):
        return False
    # By their text: Python takes `{"const": 1}` and `{"const": True}` for equal.
    left = [*{json.dumps(each): each for each in schemas if each not in (True, {})}.values()]
    if len(left) < 2:
        return left[0] if left else True
    return {"allOf": left}
