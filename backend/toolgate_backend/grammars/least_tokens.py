"""The least number of tokens of a tool's arguments, by a walk of the schema.

A budget reserves as many tokens for a call. The walk makes about the shortest value, and counts the
fewest tokens that spell it in the dialect's form. Where it is unsure, it takes less: with a number
that is too large, requests would be refused that fit, and with one that is too small, `max_tokens`
cuts a call.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import jsonschema_rs

from toolgate_core import grammar_key
from toolgate_core.custom_tools import INPUT, grammar_of
from toolgate_core.dialects.dialect import FlatTags, GemmaValues, Json, NestedTags, Pythonic
from toolgate_core.schema.closed_objects import close_objects
from toolgate_core.schema.regular import parts
from toolgate_core.schema.regular.reading import parse
from toolgate_core.schema.types import type_of

from ..errors import GrammarRefused
from ..tokens.call_form import CallForm
from ..tokens.units import TokenIndex, units
from .codecs import nodes
from .codecs.rules import near_bounds
from .codecs.typed_values import python_literal

FORMATS = (
    ("date", "2000-01-01"),
    ("time", "00:00:00Z"),
    ("date-time", "2000-01-01T00:00:00Z"),
    ("duration", "P1D"),
    ("email", "a@b.c"),
    ("hostname", "a"),
    ("ipv4", "1.1.1.1"),
    ("ipv6", "::1"),
    ("uri", "a:b"),
    ("uuid", "aaaaaaaa-aaaa-4aaa-aaaa-aaaaaaaaaaaa"),
    ("uuid", "afffffff-face-face-face-facedfffffff"),
)
"""Short strings of the formats that masks enforce."""
LIKED = "a-A0f/ ."
"""The characters of which strings are made, as far as they may have them."""
MAX_LENGTH = 4_000
"""Maximum length of the arguments, in characters. Longer ones have no known number of tokens."""
MAX_LISTED = 24
"""Maximum number of values of an `enum` whose tokens are counted: the shortest ones."""
MAX_ORDERS = 8
"""Maximum number of members that are tried as the first and as the last one."""
MAX_UNION_LENGTH = 400
"""Length in characters up to which the tokens of alternatives are counted, not only added."""


def texts_of(schema: dict[str, Any], word: str = "") -> Iterator[str]:
    """Yield short strings that a schema of strings may allow. `word`: a long text that is one
    token, for strings with a least length."""
    patterns = [schema.get("pattern"), *(each.get("pattern") for each in schema.get("allOf", ()))]
    least = min(int(schema.get("minLength", 0)), MAX_LENGTH)
    of_format = [text for name, text in FORMATS if name == schema.get("format")] or [""]
    for liked, known in product(LIKED, of_format):
        matches = (short_match(each, liked) for each in patterns if isinstance(each, str))
        text = max([known, *matches], key=len)
        yield text.ljust(least, liked)
        if word and len(text) < least:
            yield (text + word * least)[:least]


@lru_cache(maxsize=512)
def short_match(pattern: str, liked: str) -> str:
    """Return a short text that a pattern matches, without regard to what it asserts."""
    try:
        return _short_match(parse(pattern), liked + LIKED)
    except parts.Unsupported:
        return ""


def _short_match(part: parts.Part, liked: str) -> str:
    match part:
        case parts.Characters(ranges, properties):
            if properties:  # most have letters, and a wrong guess costs a token or two
                return liked[0]
            if not ranges:
                raise parts.Unsupported("no character")
            return next((each for each in liked if parts.has(ranges, ord(each))), chr(ranges[0][0]))
        case parts.Group(one):
            return _short_match(one, liked)
        case parts.Sequence(inner):
            return "".join(_short_match(each, liked) for each in inner)[:MAX_LENGTH]
        case parts.Alternatives(options):
            return min((_short_match(each, liked) for each in options), key=len)
        case parts.Repetition(one, least):
            return _short_match(one, liked) * min(least, MAX_LENGTH) if least else ""
    return ""


def numbers_of(schema: dict[str, Any]) -> Iterator[Any]:
    """Yield short numbers that a schema of numbers may allow."""
    yield from range(10)
    for bound in near_bounds(schema).values():
        yield bound
        if math.isfinite(bound):
            yield from (math.floor(bound), math.ceil(bound))
            if step := schema.get("multipleOf"):
                yield from (math.floor(bound / step) * step, math.ceil(bound / step) * step)
    if "multipleOf" in schema:
        yield schema["multipleOf"]


class _Short(NamedTuple):
    """A short value, with about its numbers of tokens and characters."""

    tokens: int
    length: int
    value: Any


class _Walk:
    """A short value of a structure. Those of definitions are looked for again until none becomes
    shorter by another one."""

    def __init__(self, structure: nodes.Structure, cost: Callable[[str], int], word: str) -> None:
        self._cost, self._word = cost, word
        self._scalars: dict[int, _Short | None] = {}
        """By identity of the node."""
        self._defined: dict[str, _Short] = {}
        self._definitions, self._visited = structure.definitions, set[str]()
        while sum(map(self._shortens, self._definitions)):
            pass
        self.least = self._of(structure.root)

    def _shortens(self, name: str) -> bool:
        self._visited.add(name)
        shortest, known = self._of(self._definitions[name]), self._defined.get(name)
        if shortest is None or (known is not None and known.tokens <= shortest.tokens):
            return False
        self._defined[name] = shortest
        return True

    def _of(self, node: nodes.Node) -> _Short | None:
        match node:
            case nodes.Reference(name):
                if name not in self._visited:
                    self._shortens(name)
                return self._defined.get(name)
            case nodes.Union(options):
                shorts = filter(None, map(self._of, options))
                return _least(
                    each if each.length > MAX_UNION_LENGTH else self._short(each.value)
                    for each in shorts
                )
            case nodes.Object():
                return self._object(node)
            case nodes.Array(first, further, least):
                if least > MAX_LENGTH:
                    return None
                begin = [*map(self._of, first[:least])]
                return _together([*begin, *[self._of(further)] * (least - len(begin))], list)
        if id(node) not in self._scalars:
            self._scalars[id(node)] = _least(map(self._short, _values_of(node, self._word)))
        return self._scalars[id(node)]

    def _short(self, value: Any) -> _Short:
        text = json.dumps(value)
        return _Short(self._cost(text), len(text), value)

    def _object(self, node: nodes.Object) -> _Short | None:
        values = {each.name: self._of(each.value) for each in node.members if each.required}
        missing = min(node.least, MAX_LENGTH) - len(values)
        if missing > 0:
            others = {each.name: self._of(each.value) for each in node.members if not each.required}
            if node.further is not None:
                others |= dict.fromkeys(map(str, range(missing)), self._of(node.further.value))
            known = [(name, each) for name, each in others.items() if each is not None]
            values |= dict(sorted(known, key=lambda each: each[1].tokens)[:missing])
        return _together(
            [*values.values(), *map(self._short, values)],
            lambda texts: dict(zip(values, texts, strict=False)),
        )


def _least(shorts: Iterable[_Short]) -> _Short | None:
    return min(shorts, key=lambda each: each.tokens, default=None)


def _together(shorts: list[_Short | None], make: Callable[[list[Any]], Any]) -> _Short | None:
    """Return what `make` makes of the values; None if one is not known, or it is too long."""
    known = [each for each in shorts if each is not None]
    length = sum(each.length for each in known)
    if len(known) < len(shorts) or length > MAX_LENGTH:
        return None
    tokens = 1 + sum(each.tokens for each in known)
    return _Short(tokens, length + 2, make([each.value for each in known]))


def _values_of(node: nodes.Text | nodes.Number | nodes.Values, word: str) -> list[Any]:
    """Return values of which the shortest may be that of the node."""
    if isinstance(node, nodes.Values):
        return sorted(node.values, key=lambda each: len(json.dumps(each)))[:MAX_LISTED]
    is_text = isinstance(node, nodes.Text)
    schema = {"type": "string", **node.schema} if is_text else node.schema
    tried = [*(texts_of(schema, word) if is_text else numbers_of(schema))]
    valid = jsonschema_rs.validator_for(schema, validate_formats=True).is_valid
    return [each for each in tried if len(schema) == 1 or valid(each)] or tried


class LeastTokens:
    """The numbers for one dialect and vocabulary. `index` has the marks."""

    def __init__(self, form: CallForm, index: TokenIndex) -> None:
        self._form = form
        self._index = index
        self._cost = lru_cache(4096)(self._cost_of)
        self._word = index.longest_word()

    def of(self, name: str, schema: dict[str, Any]) -> int | None:
        """Return the least number of tokens of a tool's arguments, with the fixed text around them;
        None if it is not known. `schema` is the one that the engine was given."""
        if name == grammar_key.CONTENT:
            return None
        if (grammar := grammar_of(schema)) is not None:
            text = short_match(grammar.definition, "") if grammar.syntax == "regex" else ""
            return self._count(name, {INPUT: text})
        try:
            structure = nodes.structure_of(close_objects(schema))
            short = _Walk(structure, self._cost, self._word).least
        except (GrammarRefused, RecursionError):
            return None
        return None if short is None else self._count(name, short.value)

    def _count(self, name: str, value: dict[str, Any]) -> int:
        before, after = self._form.grammar_texts(name)

        def count(order: Sequence[str]) -> int:
            texts = self._written({each: value[each] for each in order})
            return min(self._fewest(before + text + after) for text in texts)

        # The first and the last member may share tokens with the text around them.
        order = [*value]
        for to_front in (True, False):
            orders = (_moved(order, each, to_front=to_front) for each in order[:MAX_ORDERS])
            order = min([order, *orders], key=count)
        return count(order)

    def _fewest(self, encoded: str) -> int:
        text = units(encoded, self._form.marks)
        tokens = self._index.fewest(text)
        return len(text if tokens is None else tokens)

    def _cost_of(self, value: str) -> int:
        """Return the number of tokens by which an argument with a value, given as JSON, is longer
        than one with the value 0."""
        if len(value) > MAX_LENGTH:
            return len(value)
        costs = [
            min(self._fewest(text) for text in self._written({"a": each, "b": 0}))
            for each in (json.loads(value), 0)
        ]
        return costs[0] - costs[1] + 1

    # --- the arguments in the dialect's form ---

    def _written(self, value: dict[str, Any]) -> Iterator[str]:
        """Yield the texts of some arguments, in the encoding of marks."""
        encode = self._form.marks.encode
        match self._form.codec:
            case FlatTags() as codec:
                yield "".join(_tagged(codec, *each, encode) for each in value.items())
            case NestedTags(namespace, item):
                yield "".join(_nested(encode(namespace), item, *each) for each in value.items())
            case GemmaValues(quote, braces):
                text = _gemma(value, encode(quote))
                yield text if braces else text[1:-1]
            case Pythonic(json_objects=json_objects):
                for quote in "\"'":
                    texts = (
                        f"{name}={python_literal(each, quote, json_objects=json_objects)}"
                        for name, each in value.items()
                    )
                    yield _plain(", ".join(texts))
            case codec:
                yield _json(value, codec)


def _moved(order: Sequence[str], name: str, *, to_front: bool) -> list[str]:
    others = [each for each in order if each != name]
    return [name, *others] if to_front else [*others, name]


def _json(value: Any, codec: Json | FlatTags = Json()) -> str:  # noqa: B008 - frozen
    separators = (codec.item_separator, codec.key_separator)
    return _plain(json.dumps(value, ensure_ascii=False, separators=separators))


def _plain(text: str) -> str:
    """Text without lone surrogates, which are marks."""
    return text.encode(errors="replace").decode()


def _tagged(codec: FlatTags, name: str, value: Any, encode: Any) -> str:
    for char, written in codec.escapes:
        name = name.replace(char, written)
    middle = codec.middle.replace("{type}", dict(codec.types).get(type_of(value), ""))
    text = _plain(value) if isinstance(value, str) else _json(value, codec)
    return f"{encode(codec.begin)}{_plain(name)}{encode(middle)}{text}{encode(codec.end)}"


def _nested(namespace: str, item: str, name: str, value: Any) -> str:
    if isinstance(value, dict):
        text = "".join(_nested(namespace, item, *each) for each in value.items()) + namespace
    elif isinstance(value, list):
        text = "".join(_nested(namespace, item, item, each) for each in value) + namespace
    else:
        text = (_plain(value) if isinstance(value, str) else json.dumps(value)) + namespace
    return f"{namespace}<{_plain(name)}>{text}</{_plain(name)}>"


def _gemma(value: Any, quote: str) -> str:
    if isinstance(value, dict):
        members = (f"{_plain(name)}:{_gemma(each, quote)}" for name, each in value.items())
        return f"{{{','.join(members)}}}"
    if isinstance(value, list):
        return f"[{','.join(_gemma(each, quote) for each in value)}]"
    return f"{quote}{_plain(value)}{quote}" if isinstance(value, str) else json.dumps(value)
