"""Strings as raw text up to an end mark, as terminals of llguidance's Lark.

llguidance's lexer is greedy: it takes the longest text that any terminal matches. A terminal that
is followed by a literal could take a part of it, so the literal is part of the terminal as far as
it has no special token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import jsonschema_rs
import llguidance

from toolgate_core.dialects.arguments.tagged import CDATA, CDATA_END
from toolgate_core.dialects.marks import Marks
from toolgate_core.schema.keywords import RAW_FORMATS
from toolgate_core.schema.patterns import whole
from toolgate_core.schema.regular.parts import Unsupported, text_of
from toolgate_core.schema.regular.reading import parse
from toolgate_core.schema.walk import subschemas
from toolgate_core.wire import ResidualKeyword

from ...errors import GrammarRefused
from ..text_kinds import MAX_COUNTED, raw_text
from .nodes import OF_TEXT, FurtherMembers, listed
from .rules import GrammarRules, encoded_literal, quoted

COUNTS = ("minLength", "maxLength")
FREE = "(?s:.*)"
ANY = f"/{FREE}/"
EMPTY = "Unsatisfiable schema: Regex is empty"
"""The beginning of llguidance's message for a string that no text satisfies."""
SOME = "/(?s:.+)/"


class RawStrings:
    """Makes the values of one codec. `close` and `end` are encoded."""

    def __init__(
        self, rules: GrammarRules, end: str, close: str, marks: Marks, *, cdata: bool
    ) -> None:
        self._rules = rules
        first = next((at for at, char in enumerate(end) if marks.is_mark(char)), len(end))
        self._end, self._rest = end[:first], encoded_literal(end[first:], marks)
        """The text of the end, which is part of the value's terminal, and Lark of what follows it;
        empty if there is none."""
        self.end = " ".join(filter(None, [quoted(self._end) if self._end else "", self._rest]))
        """All of the end, in Lark."""
        self._cdata = cdata
        self._close = marks.decode(close)
        rules.raw = raw_text(
            self._end.encode(), self._close.encode(), ends_with_mark=bool(self._rest)
        )
        after = "" if self._rest else f" {quoted(self._end)}"
        self._closed = rules.add("CLOSED", f"{ANY} {quoted(self._close)} {ANY}{after}")

    def value(self, schema: dict[str, Any], forbidden: Sequence[str] = ()) -> str | None:
        """Return the rule of a string with its end; None if no string can be written. `forbidden`
        are regular expressions of strings that would be read as another type. Raise
        GrammarRefused."""
        values = listed(schema)
        if values is not None:
            texts = [value for value in values if isinstance(value, str)]
            return self._one_of(texts, forbidden)
        if unknown := sorted(schema.keys() & {"$ref", "anyOf", "oneOf", "not", "if"}):
            raise GrammarRefused(f"{unknown[0]} of a raw text is not supported", "")
        uncounted = too_long(schema)
        schema = {keyword: value for keyword, value in schema.items() if keyword not in uncounted}
        parts = [_length(schema), *patterns_of(schema)]
        if not has_text(*parts):
            return None
        if forbidden or self._cdata:
            self._rules.has_constrained = True
        body = " & ".join(self._rules.add("TEXT", f"/{part}/") for part in parts)
        constraints = {each: schema[each] for each in OF_TEXT if each in schema}
        can_be_empty = jsonschema_rs.is_valid(constraints, "", validate_formats=True)
        if not self._cdata:
            return self._terminal(body, forbidden, can_be_empty=can_be_empty)
        plain = self._rules.add("TEXT", r"/[^<&\n\r]*/")
        both = [
            self._terminal(f"{body} & {plain}", forbidden, can_be_empty=can_be_empty),
            self._character_data(body),
        ]
        return self._rules.add("text", " | ".join(each for each in both if each))

    def scalars(self, regexes: Sequence[str]) -> str:
        """Return the rule of a scalar with its end, where a string is allowed as well."""
        self._rules.has_constrained = True
        body = self._rules.add("SCALAR", f"/{'|'.join(f'(?:{each})' for each in regexes)}/")
        if self._rest and not self._end:
            return self._rules.add("scalar", f"{body} {self._rest}")
        return self._ended(self._rules.add("SCALAR", f"{body} {quoted(self._end)}"))

    def _ended(self, terminal: str) -> str:
        """Return the rule of a terminal that has the text of the end. It is lazy: nothing is
        matched after the end, and llguidance's lexer needs to know that before a special token."""
        attribute = "" if self._rest else "[lazy]"
        name = self._rules.add("value", terminal, attribute)
        return self._rules.add("text", f"{name} {self._rest}")

    def _terminal(self, body: str, forbidden: Sequence[str], *, can_be_empty: bool) -> str | None:
        excluded = [f"~{self._closed}"]
        if forbidden:
            text = f" {quoted(self._end)}" if self._end else ""
            scalars = "|".join(f"(?:{each})" for each in forbidden)
            excluded.append(f"~{self._rules.add('SCALAR', f'/{scalars}/{text}')}")
        if self._end:
            inner = self._rules.add("TEXT", body) if " " in body else body
            whole = self._rules.add("TEXT", f"{inner} {quoted(self._end)}")
            return self._ended(self._rules.add("VALUE", " & ".join([whole, *excluded])))
        # An empty terminal is never matched.
        some = self._rules.add("TEXT", SOME)
        name = self._rules.add("VALUE", " & ".join([body, *excluded, some]))
        return self._rules.add("text", f"{name}{'?' if can_be_empty else ''} {self._rest}")

    def _character_data(self, body: str) -> str:
        end = quoted(CDATA_END)
        inner = self._rules.add("TEXT", body) if " " in body else body
        whole = self._rules.add("TEXT", f"{inner} {end}")
        closed = self._rules.add("CLOSED", f"{ANY} {end} {SOME}")
        terminal = self._rules.add("VALUE", f"{whole} & ~{closed}")
        name = self._rules.add("value", terminal, "[lazy]")
        return self._rules.add("text", f"{quoted(CDATA)} {name} {self.end}")

    def _one_of(self, texts: Sequence[str], forbidden: Sequence[str]) -> str | None:
        ways = []
        for text in texts:
            if self._cdata and set(text) & set("<&\n\r"):
                if CDATA_END not in text:
                    ways.append(f"{quoted(CDATA + text + CDATA_END)} {self.end}")
            elif self._can_be_raw(text) and not _matches(forbidden, text):
                literal = quoted(text + self._end) if text + self._end else ""
                ways.append(f"{literal} {self._rest}".strip())
        return self._rules.add("text", " | ".join(ways)) if ways else None

    def _can_be_raw(self, text: str) -> bool:
        """Return whether readers find the end of this text where it is."""
        whole = text + (self._end if self._rest else self._close)
        return whole.find(self._close) in (-1, len(text))


def exactly(text: str) -> str:
    """Return a regular expression that matches this text alone."""
    return "".join(char if char.isalnum() else f"\\{char}" for char in text)


def _matches(regexes: Sequence[str], text: str) -> bool:
    return any(re.fullmatch(each, text) for each in regexes)


def too_long(schema: dict[str, Any]) -> list[str]:
    """Return the keywords of a string's length that are beyond what masks count."""
    bounds = ((each, schema.get(each)) for each in COUNTS)
    return [each for each, n in bounds if isinstance(n, int | float) and n > MAX_COUNTED]


def uncounted_lengths(schema: Mapping[str, Any]) -> list[ResidualKeyword]:
    """Return the lengths in a tool's schema that are left to validation."""
    return [
        ResidualKeyword(pointer=f"{pointer}/{keyword}", keyword=keyword)
        for pointer, node in subschemas(schema)
        if isinstance(node, dict)
        for keyword in too_long(node)
    ]


def _length(schema: dict[str, Any]) -> str:
    least, most = schema.get("minLength", 0), schema.get("maxLength", "")
    if not least and most == "":
        return FREE
    return f"(?s:.{{{int(least)},{most if most == '' else int(most)}}})"


def patterns_of(schema: dict[str, Any]) -> list[str]:
    """Regular expressions of which a string of this schema matches all. Raise GrammarRefused."""
    patterns = [whole_text(schema["pattern"])] if "pattern" in schema else []
    if "format" in schema:
        if schema["format"] not in RAW_FORMATS:
            raise GrammarRefused(f"the format {schema['format']!r} of a raw text", "/format")
        patterns.append(RAW_FORMATS[schema["format"]])
    for part in schema.get("allOf", ()):
        if not isinstance(part, dict) or part.keys() - {"pattern"}:
            raise GrammarRefused("allOf of a raw text is not supported", "")
        patterns += patterns_of(part)
    return patterns


_EMPTY = "(?:)"
"""An empty regular expression would begin a comment of Lark."""


def whole_text(pattern: str) -> str:
    """Return a regular expression that matches as a whole the strings in which `pattern` is found:
    JSON Schema searches for a pattern, and a terminal of Lark has no anchors. Raise GrammarRefused
    if there is none."""
    try:
        return text_of(whole(parse(pattern))) or _EMPTY
    except (Unsupported, RecursionError) as error:
        raise GrammarRefused(
            f"the pattern {pattern[:60]!r} cannot be a raw text: {error}", ""
        ) from error


@lru_cache(maxsize=4_096)
def has_text(*regexes: str) -> bool:
    """Return whether a text matches all regular expressions as a whole. A terminal that no text
    matches would be a state without an end, which llguidance refuses in JSON only. Raise
    GrammarRefused if it cannot tell."""
    if regexes == (FREE,):
        return True
    patterns = [{"pattern": f"^(?:{each})$"} for each in regexes]
    grammar = llguidance.LLMatcher.grammar_from_json_schema({"type": "string", "allOf": patterns})
    problem = llguidance.LLMatcher.validate_grammar(grammar)
    if problem and not problem.startswith(EMPTY):
        raise GrammarRefused(problem, "")
    return not problem


def further_names(
    rules: GrammarRules, names: FurtherMembers, usual: str, writable: str, after: str = ""
) -> str | None:
    """Add a terminal of names with the text after them; None if none can be written. `writable` are
    the names that the codec can write, `usual` those for which the schema has no pattern."""
    if names.pattern is None:
        known = (f"{name}{after}" for name in sorted(names.declared))
        return undeclared(rules, f"/{usual}{after}/", filter(None, known))
    parts = whole_text(names.pattern), whole_text(f"^{writable}$")
    if not has_text(*parts):
        return None
    keys = [rules.add("KEY", f"/(?:{each}){after}/") for each in parts]
    return rules.add("KEY", " & ".join(keys))


def undeclared(rules: GrammarRules, names: str, declared: Iterable[str]) -> str:
    """Add a terminal of the texts of `names` that are not among `declared`."""
    key = rules.add("KEY", names)
    known = " | ".join(map(quoted, declared))
    return rules.add("KEY", f"{key} & ~{rules.add('KEY', known)}") if known else key
