"""Reading a compiled grammar back, because engines may misread what they are given.

Short values of the schema are written, such that each name occurs in one of them, and each listed
value that needs care. The grammar has to accept them, and to refuse those in which one character of
a name or of a listed string is another one. The validator decides which values are valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

import jsonschema_rs

from toolgate_core.schema.closed_objects import close_objects

from ..errors import GrammarRefused
from ..tokens.call_form import CallForm
from .codecs import nodes
from .engines.engine import CompiledGrammar
from .least_tokens import numbers_of, texts_of

MAX_VALUES = 8
"""Maximum number of values that are written of one schema, and of changed ones."""
MAX_NODES = 1_000
"""Maximum number of nodes of the schema's structure that are visited."""
_NEEDS_CARE = re.compile(r"[^A-Za-z0-9_ -]")


def misread(schema: dict[str, Any], accepts: Callable[[Any], bool]) -> tuple[Any, ...]:
    """Return a value that the grammar of a prepared schema wrongly accepts or refuses; nothing if
    none was found. `accepts`: whether the grammar accepts a value."""
    schema = close_objects(schema)
    try:
        samples = _Samples(schema)
    except GrammarRefused:
        return ()
    valid = jsonschema_rs.validator_for(schema, validate_formats=True).is_valid
    # Engines may write U+007F as an escape.
    values = [each for each in samples.values if valid(each) and "\x7f" not in json.dumps(each)]
    changed = islice(samples.changed(), MAX_VALUES)
    refused = (each for each in values if not accepts(each))
    accepted = (each for each in changed if not valid(each) and accepts(each))
    return next(((each,) for group in (refused, accepted) for each in group), ())


class _Samples:
    def __init__(self, schema: dict[str, Any]) -> None:
        self._structure = nodes.structure_of(schema)
        self._literals: set[str] = set()
        self._left = MAX_NODES
        self.values = self._of(self._structure.root, ())

    def changed(self) -> Iterator[Any]:
        """Yield values with one character of a name or a listed string changed."""
        texts = [json.dumps(value) for value in self.values]
        for literal in sorted(filter(_NEEDS_CARE.search, self._literals), key=str.isascii):
            other = _NEEDS_CARE.sub(lambda match: chr(ord(match[0]) ^ 1), literal, count=1)
            old, new = json.dumps(literal), json.dumps(other)
            yield from (json.loads(text.replace(old, new)) for text in texts if old in text)

    def _of(self, node: nodes.Node, path: tuple[str, ...]) -> list[Any]:
        """Return values, of which some may be invalid; none if none is known."""
        self._left -= 1
        match node:
            case _ if self._left < 0:
                return []
            case nodes.Reference(name):
                inside = self._structure.definitions[name] if name not in path else nodes.NOTHING
                return self._of(inside, (*path, name))
            case nodes.Union(options):
                ways = (each for option in options for each in self._of(option, path))
                return [*islice(ways, MAX_VALUES)]
            case nodes.Values(values):
                listed = [each for each in values if _NEEDS_CARE.search(str(each))][:MAX_VALUES]
                self._literals.update(each for each in listed if isinstance(each, str))
                return listed or [*values[:1]]
            case nodes.Text(schema):
                return _first({"type": "string"} | schema, ["", *texts_of(schema)])
            case nodes.Number(schema):
                return _first(schema, numbers_of(schema))
            case nodes.Object(members):
                sample = {each.name: self._of(each.value, path) for each in members}
                known = {name: values for name, values in sample.items() if values}
                self._literals |= known.keys()
                count = max(map(len, known.values()), default=1)
                return [{k: v[at % len(v)] for k, v in known.items()} for at in range(count)]
            case nodes.Array(first, further, least, most):
                begin = [each for one in first for each in self._of(one, path)[:1]]
                count = max(least - len(first), 0 if most == len(first) else 1)
                return [begin + [each] * count for each in self._of(further, path)] or [begin]


def _first(schema: dict[str, Any], tried: Iterable[Any]) -> list[Any]:
    valid = jsonschema_rs.validator_for(schema, validate_formats=True).is_valid
    return [*islice((each for each in tried if len(schema) == 1 or valid(each)), 1)]


class InstanceWalker:
    """`token_bytes`: the bytes of each token."""

    def __init__(
        self, form: CallForm, encode: Callable[[str], list[int]], token_bytes: Sequence[bytes]
    ) -> None:
        self._form = form
        self._tokens_of = encode
        self._token_bytes = token_bytes
        self._byte_tokens = {text[0]: at for at, text in enumerate(token_bytes) if len(text) == 1}

    def accepts(
        self, grammar: CompiledGrammar, name: str, schema: dict[str, Any], value: Any
    ) -> bool:
        """Return whether a grammar of JSON allows a value, with its members in this order."""
        codec = self._form.json_of(name)
        assert codec is not None
        before, after = self._form.grammar_texts(name, schema)
        text = _written(value, codec.item_separator, codec.key_separator)
        matcher = grammar.matcher()
        try:
            tokens = self._encode(before + text + after)
        except UnicodeEncodeError:  # a lone surrogate, which no token spells
            return False
        return all(matcher.accept(token) for token in tokens) and matcher.complete

    def _encode(self, text: str) -> list[int]:
        """Return the tokens of a text; single bytes if the tokenizer would change it, as those do
        that normalise Unicode."""
        data, tokens = text.encode(), self._tokens_of(text)
        if b"".join(self._token_bytes[token] for token in tokens) == data:
            return tokens
        return [self._byte_tokens[byte] for byte in data if byte in self._byte_tokens]


def _written(value: Any, comma: str, colon: str) -> str:
    """Return a value as JSON, with numbers without exponents and without `.0`."""
    if isinstance(value, dict):
        members = (
            json.dumps(name, ensure_ascii=False) + colon + _written(member, comma, colon)
            for name, member in value.items()
        )
        return f"{{{comma.join(members)}}}"
    if isinstance(value, list):
        return f"[{comma.join(_written(item, comma, colon) for item in value)}]"
    if isinstance(value, float):
        return format(Decimal(repr(value)).normalize(), "f")
    return json.dumps(value, ensure_ascii=False)
