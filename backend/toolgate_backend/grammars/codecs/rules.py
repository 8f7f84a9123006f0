"""Rules of llguidance's Lark that a codec makes of a schema, the literals in them, and integers of
any size, because `%json` reads numbers in double precision."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from toolgate_core.dialects.marks import Marks
from toolgate_core.schema.preparation.engine_form import has_large_numbers
from toolgate_core.schema.walk import subschemas
from toolgate_core.wire import ResidualKeyword

from ...errors import GrammarRefused
from ..text_kinds import NOT_FREE, FreeTexts, RawText

MAX_DIGITS = 128
"""Maximum number of digits of the bounds of a range."""


_NEAR_BOUNDS = {"minimum": 0, "maximum": 0, "exclusiveMinimum": 1, "exclusiveMaximum": -1}


def near_bounds(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values nearest to the bounds of a schema that it may allow, by their keywords."""
    return {key: schema[key] + more for key, more in _NEAR_BOUNDS.items() if key in schema}


def exact_numbers(schema: Any, options: Mapping[str, Any]) -> str | None:
    """Return the values of a schema of large integers in Lark; None if `%json` reads the schema
    exactly. Raise GrammarRefused for large integers inside it, or beside other keywords."""
    if not any(has_large_numbers(node) for _, node in subschemas(schema)):
        return None
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is not None and schema.keys() <= {"enum", "const", "type"}:
        separators = (options.get("item_separator", ", "), options.get("key_separator", ": "))
        texts = (json.dumps(v, ensure_ascii=False, separators=separators) for v in values)
        return " | ".join(map(json.dumps, texts))
    bounds = near_bounds(schema)
    low = max((bounds[key] for key in bounds if "inimum" in key), default=None)
    high = min((bounds[key] for key in bounds if "aximum" in key), default=None)
    if schema.keys() - _NEAR_BOUNDS.keys() != {"type"} or len(f"{low}{high}") > MAX_DIGITS:
        raise GrammarRefused("integers beyond 2^53 inside other values", "")
    return f"/{integers(low, high)}/"


def integers(low: int | None, high: int | None) -> str:
    """Return a regular expression of the integers of a range, as JSON writes them."""
    ways = []
    if low is None or low < 0:
        ways.append(
            f"-{_positive(1 if high is None else max(1, -high), None if low is None else -low)}"
        )
    if high is None or high >= 0:
        ways.append(_positive(max(0, low or 0), high))
    return "|".join(ways) if ways else "[^\\s\\S]"


def _positive(low: int, high: int | None) -> str:
    """Return the numbers of a range without a sign, by their numbers of digits."""
    first = len(str(low))
    last = first if high is None else len(str(high))
    ways = [
        _between(
            str(max(low, 10 ** (n - 1) * (n > 1))),
            str(10**n - 1 if high is None else min(high, 10**n - 1)),
        )
        for n in range(first, last + 1)
    ]
    more = [f"[1-9][0-9]{{{last},}}"] if high is None else []
    return f"(?:{'|'.join([*ways, *more])})"


def _between(low: str, high: str) -> str:
    """Return the numbers between two of the same number of digits."""
    if low == high:
        return low
    rest = len(low) - 1
    if low[0] == high[0]:
        return low[0] + _between(low[1:], high[1:])
    first, last, ways = int(low[0]), int(high[0]), []
    if int(low[1:] or 0) > 0:
        ways.append(low[0] + _between(low[1:], "9" * rest))
        first += 1
    if int(high[1:] or 9) < 10**rest - 1 and rest:
        ways.append(high[0] + _between("0" * rest, high[1:]))
        last -= 1
    if first <= last:
        ways.append(f"[{first}-{last}]" + "[0-9]" * min(rest, 1) + f"{{{rest}}}" * (rest > 1))
    return f"(?:{'|'.join(ways)})"


TagText = Literal["json", "either", "text"]
"""JSON; a string, or JSON if it begins with a bracket; a string, or a scalar that looks like one.
"""
MAX_LENGTH = 2_000_000
"""Maximum length of a grammar, in characters. Definitions are repeated in each value that uses
them. The engine makes the same grammar again, in its own memory; of 722 real tools, none needs more
than 25,000."""
MAX_UNORDERED = 64
"""Maximum number of members in any order: the bits of a parameter of llguidance's rules."""
OTHERS = b""


def tag_text(types: Collection[str]) -> TagText:
    """Return what the text of a value of these types is."""
    if "string" not in types:
        return "json"
    return "either" if {"object", "array"} & set(types) else "text"


@dataclass
class GrammarRules:
    """A grammar in the making. `start` of the whole grammar refers to the rule `arguments`."""

    lines: list[str] = field(default_factory=list)
    residual: list[ResidualKeyword] = field(default_factory=list)
    """The keywords of the tool's schema that the rules do not enforce, besides those that its
    preparation removed."""
    tags: dict[bytes, TagText] = field(default_factory=dict)
    """What the text in tags is, by name, as it is written; `OTHERS`: for all other names."""
    free: FreeTexts = NOT_FREE
    """What is proven about the values."""
    raw: RawText | None = None
    """The kind of raw strings."""
    has_constrained: bool = False
    """Whether some raw strings are not the ones of a schema: those that look like other values are
    left out."""
    _names: dict[str, str] = field(default_factory=dict)
    _length: int = 0

    def add(self, kind: str, body: str, attribute: str = "") -> str:
        """Add a rule or terminal with this body, and return its name; that of an earlier one if
        there is one. `kind` is the beginning of the name: in capitals for a terminal. `attribute`
        is one of llguidance's, such as `[lazy]`."""
        whole = f"{attribute}: {body}"
        if whole not in self._names:
            self._names[whole] = f"{kind}_{len(self._names)}"
            self._append(self._names[whole] + whole)
        return self._names[whole]

    def define(self, name: str, body: str) -> None:
        self._append(f"{name}: {body}")

    def _append(self, line: str) -> None:
        """Raise GrammarRefused if the grammar is too long."""
        self._length += len(line)
        if self._length > MAX_LENGTH:
            raise GrammarRefused(f"its grammar has more than {MAX_LENGTH:,} characters", "")
        self.lines.append(line)

    def json(
        self, schema: dict[str, Any], definitions: dict[str, Any], options: Mapping[str, Any]
    ) -> str:
        """Add a rule of JSON values. `options` are llguidance's."""
        if definitions and '"$ref"' in json.dumps(schema):
            schema = {**schema, "$defs": definitions}
        if (exact := exact_numbers(schema, options)) is not None:
            return self.add("json", exact)
        return self.add("json", f"%json {json.dumps(schema | {'x-guidance': dict(options)})}")

    def any_order(
        self,
        members: Sequence[tuple[str, bool]],
        further: str | None,
        separator: str,
        counts: tuple[int, int | None] = (0, None),
    ) -> str:
        """Define rules of members in any order, with one bit for each that was written, and return
        a reference to the first. `members` are at most `MAX_UNORDERED` rules, each with whether it
        is required; `further` is the rule of others. `counts` are the least and the greatest number
        of members. Raise GrammarRefused if they cannot be counted."""
        least, most = counts
        if further and (least or most is not None):
            raise GrammarRefused("the number of undeclared members beside others", "")
        needed = sum(required for _, required in members)
        if least > len(members) or (most is not None and most < max(least, needed)):
            raise GrammarRefused("no object has this number of members", "")
        name = f"order_{len(self.lines)}"
        # The bits of the required members come first, so that one condition covers them.
        ranked = sorted(members, key=lambda each: not each[1])
        ending = [f"is_ones([0:{needed}])"] * (needed > 0)
        ending += [f"bit_count_ge([0:{len(members)}], {least})"] * (least > needed)
        end = f'""{_condition(ending)}'
        # Optional members leave room for the required ones.
        optional = f"[{needed}:{len(members)}]"
        fewer = [] if most is None else [f"bit_count_lt({optional}, {most - needed})"]
        rest = f"{name}_more" if separator else name
        free = [[f"bit_clear({at})", *(fewer if at >= needed else [])] for at in range(len(ranked))]
        following = [
            f"{member} {rest}::set_bit({at}){_condition(free[at])}"
            for at, (member, _) in enumerate(ranked)
        ]
        # A repetition, not a rule for each one: the parser's rows grow with nested rules.
        more = f"{self.add('more', f'({separator} {further})*')} " if further else ""
        ways = [f"{more}{each}" for each in (end, *(f"{separator} {each}" for each in following))]
        self.define(f"{rest}::_", "\n  | ".join(ways))
        if separator:
            begin = [end, *following, *([f"{further} {rest}::_"] if further else [])]
            self.define(f"{name}::_", "\n  | ".join(begin))
        return f"{name}::0x0"

    def repeated(self, item: str, separator: str, least: int, most: int | None) -> str:
        """Add a rule of items, which may be none if `least` is 0. `most` is not 0."""
        upper = "" if most is None else most - 1
        more = "" if most == 1 else f"({separator} {item}){{{max(0, least - 1)},{upper}}}"
        return self.add("items", f"{item} {more}" if least else f'{item} {more} | ""')

    def leave(self, schema: Any, keywords: Iterable[str], pointer: str = "") -> None:
        """Leave keywords of the tool's schema to validation. `pointer` is the place of `schema`."""
        known = {(each.pointer, each.keyword) for each in self.residual}
        for at, node in subschemas(schema):
            for keyword in keywords if isinstance(node, dict) else ():
                place = f"{pointer}{at}/{keyword}"
                if keyword in node and (place, keyword) not in known:
                    self.residual.append(ResidualKeyword(pointer=place, keyword=keyword))

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def _condition(all_of: Sequence[str]) -> str:
    if len(all_of) < 2:
        return f" %if {all_of[0]}" if all_of else ""
    return f" %if and({', '.join(all_of)})"


def encoded_literal(encoded: str, marks: Marks) -> str:
    """Return a text from `Marks.encode` in llguidance's Lark.

    Marks are written as `<[id]>`, because a string of Lark never matches a special token. The
    result can be used in rules, and in terminals if the text contains no mark. It is empty for the
    empty text."""
    parts: list[str] = []
    text = ""
    for char in encoded:
        if not marks.is_mark(char):
            text += char
            continue
        if text:
            parts.append(quoted(text))
        parts.append(f"<[{marks.token(char)}]>")
        text = ""
    if text:
        parts.append(quoted(text))
    return " ".join(parts)


def quoted(text: str) -> str:
    """Return a text without marks as a string of Lark, which cannot contain all characters as they
    are."""
    return json.dumps(text)
