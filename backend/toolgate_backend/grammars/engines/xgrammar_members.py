"""Members in any order for xgrammar, by one rule for each set of written members.

The rules of values are xgrammar's own. Only schemas inside xgrammar's sound subset
(engines/choice.py) come here: trees of closed objects, arrays, `anyOf` and scalars.

xgrammar (0.2.0 to 0.2.9) writes the characters U+0080 to U+00FF as `\\xNN`, and reads all
hexadecimal digits after `\\x`: in `"c\\xf3digo"`, the second character becomes U+0F3D. In its EBNF,
a literal therefore ends after such a character if a hexadecimal digit follows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import xgrammar

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|[A-Za-z_]\w*|.', re.DOTALL)
"""A string, a class of characters, a name or any other character."""
_MISREAD = re.compile(r"(?:[\x80-\xff]|\\x[0-9a-f]{2}|\\u00[0-9a-f]{2})(?=[0-9A-Fa-f])")


def literal(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # xgrammar reads no pairs of surrogates


def grammar_of(rules: str) -> xgrammar.Grammar:
    return xgrammar.Grammar.from_ebnf(_split(rules))


def grammar_of_schema(schema: str, separators: tuple[str, str]) -> xgrammar.Grammar:
    """Return the grammar that xgrammar makes of a JSON Schema."""
    grammar = xgrammar.Grammar.from_json_schema(
        schema, any_whitespace=False, separators=separators, strict_mode=True
    )
    written = str(grammar)
    return grammar_of(written) if _MISREAD.search(written) else grammar


def _split(rules: str) -> str:
    """Return the rules with two literals in place of each one that xgrammar would misread."""
    return "".join(
        _MISREAD.sub(r'\g<0>" "', token) if token[0] == '"' else token
        for token in (TOKEN.findall(rules) if _MISREAD.search(rules) else [rules])
    )


MAX_MEMBERS = 8
"""Most members of an object in any order: it has two to the power of this rules. Of 1,706 real
schemas, 97 % have no larger object."""
MAX_SETS = 600
"""Most rules for sets of members of one grammar. Compiling 256 takes 10 ms."""
_OWN = "root"
"""The beginning of the names of the rules that differ between xgrammar's grammars."""
_OWN_NAME = "\0"
"""Stands for that beginning. xgrammar's grammars have no such character: they escape it."""
KEPT_SCHEMAS = 512
"""Number of schemas whose rules are kept. Most tools have members of the same few schemas."""


def member_rules(schema: dict[str, Any], separators: tuple[str, str]) -> str | None:
    """Return a grammar in EBNF; None if no object has an order, or if there would be too many
    rules."""
    for most in range(MAX_MEMBERS, 1, -1):
        if _sets(schema, most) <= MAX_SETS:
            break
    else:
        return None
    rules = _Rules(separators, most)
    return rules.text(schema) if rules.has_order(schema) else None


def _sets(node: Mapping[str, Any], most: int) -> int:
    """Return the number of rules for sets of members."""
    declared = len(node.get("properties", ()))
    inside = [*node.get("properties", {}).values(), *node.get("anyOf", ())]
    inside += [node["items"]] if "items" in node else []
    return (2**declared if 1 < declared <= most else 0) + sum(_sets(each, most) for each in inside)


class _Rules:
    def __init__(self, separators: tuple[str, str], most: int) -> None:
        self._separators = separators
        self._item = literal(separators[0])
        self._most = most
        self._rules: dict[str, str] = {}
        self._values: dict[str, str] = {}
        self._count = 0

    def text(self, schema: dict[str, Any]) -> str:
        self._define("root", self._value(schema))
        return "\n".join(f"{name} ::= {body}" for name, body in self._rules.items())

    def has_order(self, node: Mapping[str, Any]) -> bool:
        if "anyOf" in node:
            return any(map(self.has_order, node["anyOf"]))
        if node["type"] == "array":
            return self.has_order(node["items"])
        properties = node.get("properties", {})
        return 1 < len(properties) <= self._most or any(map(self.has_order, properties.values()))

    def _value(self, node: dict[str, Any]) -> str:
        key = json.dumps(node)
        if key not in self._values:
            self._values[key] = self._ordered(node) if self.has_order(node) else self._leaf(key)
        return self._values[key]

    def _leaf(self, schema: str) -> str:
        """xgrammar's rules of a schema, under names of their own."""
        name = self._fresh("value")
        for rule, body in _rules_of(schema, self._separators):
            self._define(rule.replace(_OWN_NAME, name), body.replace(_OWN_NAME, name))
        return name

    def _ordered(self, node: dict[str, Any]) -> str:
        if "anyOf" in node:
            ways = " | ".join(dict.fromkeys(map(self._value, node["anyOf"])))
            return self._define(self._fresh("any"), ways)
        if node["type"] == "array":
            return self._array(node)
        return self._object(node)

    def _array(self, node: dict[str, Any]) -> str:
        item, least, most = (
            self._value(node["items"]),
            node.get("minItems", 0),
            node.get("maxItems"),
        )
        if most == 0:
            return self._define(self._fresh("array"), literal("[]"))
        next_item = self._define(self._fresh("item"), f"{self._item} {item}")
        upper = "" if most is None else most - 1
        more = "" if most == 1 else f"{next_item}{{{max(0, least - 1)},{upper}}}"
        some = f'"[" {item} {more} "]"'
        return self._define(self._fresh("array"), some if least else f'{some} | "[]"')

    def _object(self, node: dict[str, Any]) -> str:
        name = self._fresh("object")
        required = node.get("required", ())
        members = []
        for at, (key, value) in enumerate(node["properties"].items()):
            written = json.dumps(key, ensure_ascii=False) + self._separators[1]
            body = f"{literal(written)} {self._value(value)}"
            members.append((self._define(f"{name}_member_{at}", body), key in required))
        if len(members) <= self._most:
            self._any_order(name, members)
        else:
            self._schema_order(name, members)
        return self._define(name, f'"{{" {name}_first "}}"')

    def _any_order(self, name: str, members: list[tuple[str, bool]]) -> None:
        """A rule for what may follow each set of written members."""
        needed = sum(1 << at for at, (_, required) in enumerate(members) if required)
        for written in range(1 << len(members)):
            ways = ['""'] if written & needed == needed else []
            separator = f"{self._item} " if written else ""
            ways += [
                f"{separator}{member} {name}_after_{written | 1 << at}"
                for at, (member, _) in enumerate(members)
                if not written >> at & 1
            ]
            self._define(
                f"{name}_after_{written}" if written else f"{name}_first", " | ".join(ways)
            )

    def _schema_order(self, name: str, members: list[tuple[str, bool]]) -> None:
        for at, (member, required) in enumerate(members):
            last = at + 1 == len(members)
            for begin, separator in ((f"{name}_first", ""), (f"{name}_more", f"{self._item} ")):
                rule = begin if at == 0 and begin.endswith("first") else f"{begin}_{at}"
                after = "" if last else f" {name}_more_{at + 1}"
                ways = [f"{separator}{member}{after}"]
                if not required:
                    ways.append('""' if last else f"{begin}_{at + 1}")
                self._define(rule, " | ".join(ways))

    def _fresh(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count}"

    def _define(self, name: str, body: str) -> str:
        """Raise ValueError if a rule that grammars share has two bodies."""
        if self._rules.setdefault(name, body) != body:
            raise ValueError(f"two rules {name}")
        return name


@lru_cache(KEPT_SCHEMAS)
def _rules_of(schema: str, separators: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """xgrammar's rules of a schema, each with its name and its body. `_OWN_NAME` stands in them for
    the name of the whole."""
    grammar = grammar_of_schema(schema, separators)
    rules = (line.partition(" ::= ") for line in str(grammar).splitlines())
    return tuple((_with_own_name(rule), _with_own_name(body)) for rule, _, body in rules)


def _with_own_name(text: str) -> str:
    return "".join(
        _OWN_NAME + token[len(_OWN) :] if token == _OWN or token.startswith(f"{_OWN}_") else token
        for token in TOKEN.findall(text)
    )
