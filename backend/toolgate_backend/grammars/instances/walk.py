"""Walk the text of an instance through the masks of a tool's grammar, and find the cause of a
refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import jsonschema_rs

from toolgate_core.schema.closed_objects import close_objects
from toolgate_core.wire import InstanceWalk

from ...tokens.call_form import CallForm
from ..engines.engine import CompiledGrammar
from .forms import Form, Text, nodes_at, written


class InstanceWalker:
    """`token_bytes`: the bytes of each token."""

    def __init__(
        self, form: CallForm, encode: Callable[[str], list[int]], token_bytes: Sequence[bytes]
    ) -> None:
        self._form = form
        self._tokens_of = encode
        self._token_bytes = token_bytes
        self._byte_tokens = {text[0]: at for at, text in enumerate(token_bytes) if len(text) == 1}

    def walk(
        self, grammar: CompiledGrammar, name: str, schema: dict[str, Any], value: Any
    ) -> InstanceWalk:
        """`schema` is the one that the engine was given. The arguments must be JSON."""
        codec = self._form.json_of(name)
        assert codec is not None
        before, after = self._form.grammar_texts(name, schema)
        separators = (codec.item_separator, codec.key_separator)

        def refused_at(text: Text) -> int | None:
            return self._refused_at(grammar, before, text, after)

        cause = cause_of(value, Form(separators), schema, refused_at, separators)
        if cause is None:
            return InstanceWalk(accepted=True)
        rule = cause.keyword if cause.kind == "keyword" else cause.kind
        return InstanceWalk(accepted=False, pointer=cause.pointer, rule=rule)

    def _encode(self, text: str) -> list[int]:
        """Return the tokens of a text; single bytes if the tokenizer would change it, as those do
        that normalise Unicode."""
        tokens, data = self._tokens_of(text), text.encode()
        if b"".join(self._token_bytes[token] for token in tokens) == data:
            return tokens
        return [self._byte_tokens[byte] for byte in data if byte in self._byte_tokens]

    def _refused_at(
        self, grammar: CompiledGrammar, before: str, text: Text, after: str
    ) -> int | None:
        """Return the first byte that is refused; None if the text is allowed."""
        try:
            whole = before + text.data.decode() + after
        except UnicodeDecodeError:  # a lone surrogate, which no token spells
            return 0
        matcher = grammar.matcher()
        last = max(0, len(text.data) - 1)
        offset = -len(before.encode())
        for token in self._encode(whole):
            spelled = self._token_bytes[token]
            if not matcher.accept(token):
                for byte in spelled:  # a refused token leaves the state unchanged
                    if byte not in self._byte_tokens or not matcher.accept(self._byte_tokens[byte]):
                        break
                    offset += 1
                return max(0, min(offset, last))
            offset += len(spelled)
        return None if matcher.complete else last


Kind = Literal["white_space", "member_order", "number_form", "closed_object", "keyword"]

KEYWORDS = (
    *("format", "pattern", "const", "enum", "multipleOf"),
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
    *("not", "oneOf", "anyOf", "allOf", "if", "dependentSchemas", "dependentRequired"),
    *("patternProperties", "propertyNames", "unevaluatedProperties", "additionalProperties"),
    *("prefixItems", "items", "contains", "uniqueItems", "required", "properties", "$ref", "type"),
)
"""The first of these at the place of a refusal is named as its cause."""


@dataclass(frozen=True)
class Cause:
    kind: Kind
    keyword: str
    pointer: str
    """JSON Pointer in the instance, where the first token is refused."""


def cause_of(
    value: Any,
    form: Form,
    schema: dict[str, Any],
    refused_at: Callable[[Text], int | None],
    separators: tuple[str, str] = (", ", ": "),
) -> Cause | None:
    """Return why a text of a valid value is refused. `refused_at` gives the byte of the first
    refused token, None for a text that is allowed. `schema` is the one that the engine was given,
    `separators` are those of the dialect. None: the text is allowed."""
    text = written(value, form, schema)
    offset = refused_at(text)
    if offset is None:
        return None
    pointer = text.pointer_at(offset)
    steps: tuple[tuple[Kind, str, Form], ...] = (
        ("white_space", "", form := replace(form, separators=separators)),
        ("member_order", "properties", form := replace(form, schema_order=True)),
        ("number_form", "type", form := replace(form, plain_numbers=True)),
    )
    for kind, keyword, form in steps:
        if refused_at(written(value, form, schema)) is None:
            return Cause(kind, keyword, pointer)
    offset = refused_at(written(value, form, schema))
    assert offset is not None
    pointer = written(value, form, schema).pointer_at(offset)
    if closed_out(schema, value):
        return Cause("closed_object", "additionalProperties", pointer)
    return Cause("keyword", _keyword(value, schema, pointer), pointer)


def closed_out(schema: dict[str, Any], value: Any) -> bool:
    """Return whether a value is invalid only because objects that declare properties are closed."""
    try:
        return jsonschema_rs.is_valid(schema, value) and not jsonschema_rs.is_valid(
            close_objects(schema), value
        )
    except (ValueError, jsonschema_rs.ValidationError):
        return False


def _keyword(value: Any, schema: dict[str, Any], pointer: str) -> str:
    steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
    while True:
        try:
            present = {keyword for node in nodes_at(value, schema, steps) for keyword in node}
        except (KeyError, IndexError, TypeError, ValueError):
            present = set()
        named = next((keyword for keyword in KEYWORDS if keyword in present), None)
        if named or not steps:
            return named or ""
        steps.pop()
