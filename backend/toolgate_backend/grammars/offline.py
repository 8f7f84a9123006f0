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

from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.wire import GrammarVerdict

from ..tokens.call_form import CallForm
from .compiler import Compiler
from .engines.llguidance_engine import LLGuidanceEngine, make_tokenizer

_PRINTED = [*range(33, 127), *range(161, 173), *range(174, 256)]
_END = "<|end|>"


def compiler_of(dialect: str) -> Compiler:
    """Return the compiler for a dialect. Raise LookupError for an unknown one."""
    marks = mark_texts(DIALECTS[dialect])
    characters = _byte_characters()
    added = [_END, *marks]
    ids = {text: len(characters) + at for at, text in enumerate(added)}
    by_bytes = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    tokenizer = {
        "version": "1.0",
        "added_tokens": [
            {"id": ids[text], "content": text, "special": True}
            | dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
            for text in added
        ],
        "pre_tokenizer": by_bytes | {"use_regex": False},
        "decoder": by_bytes,
        "model": {
            "type": "BPE",
            "vocab": {character: at for at, character in enumerate(characters)},
            "merges": [],
        },
    }
    size = len(characters) + len(added)
    made = make_tokenizer(json.dumps(tokenizer), size=size, end=ids[_END])
    form = CallForm(DIALECTS[dialect], {text: ids[text] for text in marks})
    return Compiler(form, None, LLGuidanceEngine(made))


def _byte_characters() -> list[str]:
    """Return the characters that stand for the bytes in tokenizers of single bytes (GPT-2)."""
    printed = set(_PRINTED)
    others = iter(range(256, 512))
    return [chr(byte if byte in printed else next(others)) for byte in range(256)]


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
