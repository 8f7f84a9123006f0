"""Grammars with the measurements that the quarantine would make."""

import json
from typing import Any

from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar, extra_tokens, limits_of
from toolgate_backend.grammars.engines.engine import CompiledGrammar
from toolgate_backend.grammars.least_tokens import LeastTokens


def measure(
    compiled: CompiledGrammar,
    name: str,
    parameters: dict[str, Any],
    least: LeastTokens,
    rewritten: str | None = None,
) -> MeasuredGrammar:
    """`rewritten` is the schema that the engine was given, as JSON, if it is another one."""
    given = parameters if rewritten is None else json.loads(rewritten)
    least_tokens, extra = least.of(name, given), extra_tokens(parameters)
    return MeasuredGrammar(compiled, least_tokens, name, extra, limits_of(parameters))
