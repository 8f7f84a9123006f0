"""Verdicts on schemas without a model, for `toolgate schema`.

Run as `python -m toolgate_backend.grammars.offline`. It needs llguidance, but neither vLLM nor
torch. Its vocabulary is that of single bytes with the marks of a dialect; verdicts do not depend
on other tokens. It reads a JSON object with `dialects` (names) and `tools` (name and canonical
parameters) from standard input, and writes the verdicts on each tool by dialect.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any

import llguidance

from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.wire import GrammarVerdict

from ..tokens.call_form import CallForm
from .compiler import Compiler
from .engines.custom_texts import Tokens
from .engines.llguidance_engine import LLGuidanceEngine

_END = b"<|end|>"


def compiler_of(dialect: str) -> Compiler:
    """Return the compiler for a dialect. Raise LookupError for an unknown one."""
    marks = mark_texts(DIALECTS[dialect])
    tokens = [*(bytes([byte]) for byte in range(256)), _END, *(mark.encode() for mark in marks)]
    special = range(256, len(tokens))
    made = llguidance.LLTokenizer(
        llguidance.TokenizerWrapper(Tokens(tokens, end=special[0], special=special))
    )
    form = CallForm(DIALECTS[dialect], dict(zip(marks, special[1:], strict=True)))
    return Compiler(form, None, LLGuidanceEngine(made))


def verdicts(dialect: str, tools: Iterable[dict[str, Any]]) -> list[GrammarVerdict]:
    compiler = compiler_of(dialect)
    return [
        compiler.compile("", tool["name"], canonical_json(tool["parameters"])).verdict
        for tool in tools
    ]


def main() -> None:
    asked = json.load(sys.stdin)
    for dialect in asked["dialects"]:
        for verdict in verdicts(dialect, asked["tools"]):
            print(verdict.model_dump_json(), flush=True)


if __name__ == "__main__":
    main()
