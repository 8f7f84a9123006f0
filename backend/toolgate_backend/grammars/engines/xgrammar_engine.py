"""The xgrammar engine. It has the fastest masks, and is used for schemas inside its sound
subset."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import xgrammar

from toolgate_core import grammar_key
from toolgate_core.schema.closed_objects import close_objects

from ...errors import BlobRejected, GrammarRefused
from ...settings import settings
from ...tokens.call_form import CallForm
from ...tokens.masks import BitmaskRow
from ..text_kinds import JSON_IN_XGRAMMAR, free_texts
from .engine import CompiledGrammar
from .xgrammar_members import grammar_of, grammar_of_schema, literal, member_rules

OUT_OF_MEMORY = "std::bad_alloc"
SOURCE_LINE = re.compile(r"^\[[\d:]+\] \S+:\d+: ")
"""The source location at the beginning of xgrammar's messages."""


class XGrammarEngine:
    name = "xgrammar"

    def __init__(self, info: xgrammar.TokenizerInfo, *, cache_bytes: int) -> None:
        # One compiler for the process: it shares sub-grammars between tools, which makes the second
        # compile ten times cheaper than the first. One thread, because compiles run in our own
        # pool.
        self._info = info
        self._any_order = settings().member_order == "any"
        self._compiler = xgrammar.GrammarCompiler(
            info, max_threads=1, cache_limit_bytes=cache_bytes
        )

    @property
    def token_bytes(self) -> list[bytes]:
        """The bytes of each token."""
        return list(self._info.decoded_vocab)

    def compile(self, form: CallForm, name: str, parameters: dict[str, Any]) -> CompiledGrammar:
        codec = form.json_of(name)
        if codec is None:
            raise GrammarRefused("xgrammar compiles JSON arguments only", "")
        before, after = form.grammar_texts(name, parameters)
        with _memory_errors():
            try:
                arguments = self._arguments(
                    name, parameters, (codec.item_separator, codec.key_separator)
                )
                head = [grammar_of(f"root ::= {literal(before)}")] if before else []
                tail = [grammar_of(f"root ::= {literal(after)}")] if after else []
                parts = [*head, arguments, *tail]
                grammar = xgrammar.Grammar.concat(*parts) if len(parts) > 1 else arguments
                compiled = self._compiler.compile_grammar(grammar)
                return _compiled_grammar(compiled, parameters)
            except RuntimeError as error:
                if OUT_OF_MEMORY in str(error):
                    raise
                reason = (
                    SOURCE_LINE.sub("", str(error))
                    or "it contains a value that xgrammar cannot represent"
                )
                raise GrammarRefused(f"xgrammar: {reason}", "") from error

    def _arguments(
        self, name: str, parameters: dict[str, Any], separators: tuple[str, str]
    ) -> xgrammar.Grammar:
        if self._any_order and name != grammar_key.CONTENT:
            with suppress(ValueError):  # then in the schema's order
                rules = member_rules(parameters, separators)
                if rules is not None:
                    return grammar_of(rules)
        return grammar_of_schema(json.dumps(parameters), separators)

    def deserialize(self, text: str, parameters: dict[str, Any]) -> CompiledGrammar:
        """Return the grammar of this text, of which `parameters` is the schema. Raise BlobRejected
        if another xgrammar version wrote the text, or for another vocabulary."""
        try:
            compiled = xgrammar.CompiledGrammar.deserialize_json(text, self._info)
        except RuntimeError as error:
            raise BlobRejected(f"xgrammar: {type(error).__name__}") from error
        return _compiled_grammar(compiled, parameters)


def _compiled_grammar(
    compiled: xgrammar.CompiledGrammar, parameters: dict[str, Any]
) -> CompiledGrammar:
    return CompiledGrammar(
        partial(XGrammarMatcher, compiled),
        free=free_texts(close_objects(parameters), (JSON_IN_XGRAMMAR,)),
        size=int(compiled.memory_size_bytes),
        serialize=partial(_serialize, compiled),
    )


def _serialize(compiled: xgrammar.CompiledGrammar) -> str:
    with _memory_errors():
        return str(compiled.serialize_json())


class XGrammarMatcher:
    def __init__(self, compiled: xgrammar.CompiledGrammar) -> None:
        self.native = xgrammar.GrammarMatcher(compiled, terminate_without_stop_token=True)

    def accept(self, token: int) -> bool:
        return bool(self.native.accept_token(token))

    def rollback(self, count: int) -> None:
        self.native.rollback(count)

    def fill(self, row: BitmaskRow) -> None:
        self.native.fill_next_token_bitmask(row.reshape(1, -1))

    def forced(self) -> bytes:
        try:
            return str(self.native.find_jump_forward_string()).encode()
        except UnicodeDecodeError as error:
            return bytes(error.object)  # the text ends inside a character

    def check(self) -> None:
        pass

    @property
    def finished(self) -> bool:
        return bool(self.native.is_terminated())

    @property
    def complete(self) -> bool:
        return self.finished


@contextmanager
def _memory_errors() -> Iterator[None]:
    """Convert C++ out-of-memory errors to MemoryError."""
    try:
        yield
    except RuntimeError as error:
        if OUT_OF_MEMORY in str(error):
            raise MemoryError from error
        raise
