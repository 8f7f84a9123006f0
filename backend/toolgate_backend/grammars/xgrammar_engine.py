"""xgrammar behind the seam: the fastest masks, for the schemas `choose` finds in its sound part."""

from __future__ import annotations

import json
from typing import Any

import xgrammar

from toolgate_core.dialect import Dialect

from ..errors import GrammarRefused
from .engine import CompiledGrammar, Matcher, Words, envelope


class XGrammarEngine:
    name = "xgrammar"

    def __init__(self, info: xgrammar.TokenizerInfo, *, cache_bytes: int) -> None:
        # One long-lived compiler: sub-grammars are shared between tools, which makes the second
        # compile ten times cheaper than the first. One thread: compiles run in our own pool.
        self._compiler = xgrammar.GrammarCompiler(
            info, max_threads=1, cache_limit_bytes=cache_bytes
        )

    def compile(self, dialect: Dialect, name: str, parameters: dict[str, Any]) -> CompiledGrammar:
        before, after = envelope(dialect, name)
        try:
            arguments = xgrammar.Grammar.from_json_schema(
                json.dumps(parameters),
                any_whitespace=False,
                separators=(dialect.item_separator, dialect.key_separator),
                strict_mode=True,
            )
            grammar = xgrammar.Grammar.concat(_literal(before), arguments, _literal(after))
            return _Compiled(self._compiler.compile_grammar(grammar))
        except RuntimeError as error:
            raise GrammarRefused(f"xgrammar: {error}", "") from error


class _Compiled:
    def __init__(self, compiled: xgrammar.CompiledGrammar) -> None:
        self._compiled = compiled

    def matcher(self) -> Matcher:
        return _Matcher(self._compiled)


class _Matcher:
    def __init__(self, compiled: xgrammar.CompiledGrammar) -> None:
        self._matcher = xgrammar.GrammarMatcher(compiled, terminate_without_stop_token=True)

    def accept(self, token: int) -> bool:
        return bool(self._matcher.accept_token(token))

    def rollback(self, count: int) -> None:
        self._matcher.rollback(count)

    def fill(self, row: Words) -> None:
        self._matcher.fill_next_token_bitmask(row.reshape(1, -1))

    @property
    def finished(self) -> bool:
        return bool(self._matcher.is_terminated())


def _literal(text: str) -> xgrammar.Grammar:
    # EBNF string literals take JSON's escapes.
    return xgrammar.Grammar.from_ebnf(f"root ::= {json.dumps(text)}")
