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

from toolgate_core.schema.walk import at_pointer, pointer_of_ref, subschemas

from ..codecs.codec_grammar import quoted
from ..codecs.rules import Rules
from ..codecs.structure.alternatives import types, without_root_references

MAX_MEMBERS = 64
"""The bits of a parameter."""
MAX_RULES = 400_000
"""Maximum length of the rules, in characters. Definitions are repeated in each value that uses
them."""
KEY = r'/"([^"\\\x00-\x1f\x7f]|\\(["\\bfnrt]|u00[01][0-9a-f]))*"/'
"""A name as llguidance writes strings. No escape stands for a character of `_PLAIN`, so a name
has one spelling."""
_PLAIN = re.compile(r'[^"\\\x00-\x1f\x7f\ud800-\udfff]*')
_OBJECT = frozenset({"properties", "required", "additionalProperties"})
_OTHER_TYPES = frozenset(
    {"items", "prefixItems", "minItems", "maxItems"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
    | {"minLength", "maxLength", "pattern", "format"}
)
"""Keywords that assert nothing about objects."""


class TooLarge(Exception):
    """The rules would be longer than MAX_RULES."""


def member_rules(schema: dict[str, Any], options: Mapping[str, Any]) -> str | None:
    """The rules whose first is `arguments`; None if no object inside has an order. `schema` is in
    engine form, `options` are llguidance's. Raises TooLarge."""
    schema = without_root_references(schema)
    if not all(map(_is_to_definition, subschemas(schema))):
        return None  # a part of the schema would have another target beside the definitions only
    grammar = _Members(schema, options)
    if not grammar.has_order(schema):
        return None
    grammar.rules.define("arguments", grammar.value(grammar.schema))
    return grammar.rules.text


class _Members:
    def __init__(self, schema: dict[str, Any], options: Mapping[str, Any]) -> None:
        self.schema = schema
        self.rules = Rules()
        self._options = {"x-guidance": dict(options)}
        self._definitions = schema.get("$defs", {})
        self._item = quoted(str(options["item_separator"]))
        self._colon = quoted(str(options["key_separator"]))
        self._references: dict[str, str] = {}
        self._known: dict[int, bool] = {}
        self._objects = 0
        self._length = 0

    def has_order(self, node: Any) -> bool:
        """Whether an object with several members is inside, which can be in any order."""
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
        if _only(node, "anyOf"):
            return any(map(self.has_order, node["anyOf"]))
        if _is_plain_object(node):
            inside = [*node.get("properties", {}).values(), node.get("additionalProperties")]
            return len(node.get("properties", {})) > 1 or any(map(self.has_order, inside))
        return _is_plain_array(node) and self.has_order(node["items"])

    def _target(self, node: dict[str, Any]) -> str | None:
        return pointer_of_ref(node["$ref"]) if _only(node, "$ref") else None

    def value(self, node: Any) -> str:
        if not self.has_order(node):
            return self._json(node)
        target = self._target(node)
        if target is not None:
            return self._reference(target)
        if "anyOf" in node:
            return self._one_of(node["anyOf"])
        if _is_plain_array(node):
            return self._array(node)
        others = types(node) - {"object"}
        if "number" in others:
            others -= {"integer"}
        if not others:
            return self._object(node)
        rest = {k: v for k, v in node.items() if k not in _OBJECT} | {"type": sorted(others)}
        return self.rules.add("value", f"{self._object(node)} | {self._json(rest)}")

    def _json(self, node: Any) -> str:
        schema = {} if node is True else {"not": {}} if node is False else dict(node)
        schema.pop("$defs", None)
        if '"$ref"' in json.dumps(schema):
            # llguidance allows no keywords next to a reference to a schema inside itself.
            wrapped = {"anyOf": [schema]} if "$ref" in schema else schema
            schema = {**wrapped, "$defs": self._definitions}
        text = f"%json {json.dumps(schema | self._options)}"
        self._length += len(text)
        if self._length > MAX_RULES:
            raise TooLarge
        return self.rules.add("json", text)

    def _reference(self, target: str) -> str:
        if target not in self._references:
            name = self._references[target] = f"definition_{len(self._references)}"
            self.rules.define(name, self.value(at_pointer(self.schema, target)))
        return self._references[target]

    def _one_of(self, options: list[Any]) -> str:
        ways = [self.value(each) for each in options if self.has_order(each)]
        rest = [each for each in options if not self.has_order(each)]
        if rest:
            ways.append(self._json({"anyOf": rest}))
        return self.rules.add("value", " | ".join(dict.fromkeys(ways)))

    def _array(self, node: dict[str, Any]) -> str:
        item = self.value(node["items"])
        least, most = int(node.get("minItems", 0)), node.get("maxItems")
        if most == 0:
            return '"[" "]"'
        upper = "" if most is None else int(most) - 1
        more = "" if most == 1 else f"({self._item} {item}){{{max(0, least - 1)},{upper}}}"
        some = f'"[" {item} {more} "]"'
        return self.rules.add("array", some if least else f'{some} | "[" "]"')

    def _object(self, node: dict[str, Any]) -> str:
        properties = {k: v for k, v in node.get("properties", {}).items() if v is not False}
        members = [
            self.rules.add("member", f"{quoted(_name(name))} {self._colon} {self.value(each)}")
            for name, each in properties.items()
        ]
        required = node.get("required", ())
        condition = ""
        for at, name in enumerate(properties):
            if name in required:
                one = f"bit_set({at})"
                condition = f"and({condition}, {one})" if condition else one
        end = '""' + (f" %if {condition}" if condition else "")
        further = self._further(node)
        first, rest = f"first_{self._objects}", f"rest_{self._objects}"
        self._objects += 1
        following = [
            f"{member} {rest}::set_bit({at}) %if bit_clear({at})"
            for at, member in enumerate(members)
        ]
        begin = [end, *following]
        after = ""
        if further is not None:
            # A repetition, not a rule for each one: the parser's rows grow with nested rules.
            after = self.rules.add("more", f"({self._item} {further})*") + " "
            begin.append(f"{further} {rest}::_")
        self.rules.define(f"{first}::_", "\n  | ".join(begin))
        ways = [f"{after}{end}", *(f"{after}{self._item} {each}" for each in following)]
        self.rules.define(f"{rest}::_", "\n  | ".join(ways))
        return self.rules.add("object", f'"{{" {first}::0x0 "}}"')

    def _further(self, node: dict[str, Any]) -> str | None:
        """An undeclared member; None if there may be none."""
        value = node.get("additionalProperties", True)
        if value is False:
            return None
        names = " | ".join(quoted(_name(name)) for name in node.get("properties", {}))
        key = self.rules.add("KEY", f"{KEY} & ~({names})" if names else KEY)
        return self.rules.add("further", f"{key} {self._colon} {self.value(value)}")


def _is_to_definition(place: tuple[str, Any]) -> bool:
    _, node = place
    if not isinstance(node, dict) or "$ref" not in node:
        return True
    return str(node["$ref"]).startswith("#/$defs/")


def _only(node: dict[str, Any], keyword: str) -> bool:
    return keyword in node and not node.keys() - {keyword, "$defs"}


def _is_plain_object(node: dict[str, Any]) -> bool:
    """Whether it is an object, among other types, whose members have no rules besides their
    names."""
    properties = node.get("properties", {})
    present = node.keys() - {"type", "$defs"}
    if "object" not in types({k: v for k, v in node.items() if k == "type"}):
        return False
    if not present & _OBJECT or present - _OBJECT - _OTHER_TYPES:
        return False
    required = set(node.get("required", ()))
    if any(name not in properties or properties[name] is False for name in required):
        return False
    return len(properties) <= MAX_MEMBERS and all(map(_PLAIN.fullmatch, properties))


def _is_plain_array(node: dict[str, Any]) -> bool:
    keywords = {"type", "items", "minItems", "maxItems", "$defs"}
    return node.get("type") == "array" and "items" in node and not node.keys() - keywords


def _name(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
