"""Transcripts of every dialect at every split, read by vLLM's streaming parser and by ours.

    python -m tests.long vllm-splits [--dialects a,b] [--out FILE]

Each transcript with calls arrives whole in one delta, and in two deltas for every position in its
text. A reading is right if it gives the calls of the transcript. Text before the calls, such as
reasoning, is left out for vLLM, whose tool parsers do not get it.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from tests.support import commands
from tests.support.dialects.golden_tokens import SCHEMAS
from tests.support.dialects.model import DialectModel
from tests.support.dialects.tool_calls import calls_in
from toolgate_core.dialects.dialect import Dialect, Golden
from toolgate_core.dialects.mark_texts import mark_texts
from toolgate_core.dialects.marks import Marks
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.segmenter import Segmenter

from .run import OUT
from .vllm_parsers import PARSERS, VllmParser

TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": parameters}}
    for name, parameters in SCHEMAS.items()
]


def parts_of(text: str, marks: Marks) -> Iterator[Sequence[str]]:
    """The text whole, and in two parts at every position outside a mark."""
    encoded = marks.encode(text)
    yield [text]
    for at in range(1, len(encoded)):
        yield marks.decode(encoded[:at]), marks.decode(encoded[at:])


def measure(dialect: Dialect) -> dict[str, int]:
    """Numbers of readings, and of those that are right, by reader."""
    counts: Counter[str] = Counter()
    model = DialectModel(dialect, mark_texts(dialect), TOOLS)
    vllm = VllmParser(dialect, model.vocabulary.tokenizer, TOOLS)
    marks = model.vocabulary.form.marks
    for golden in dialect.goldens:
        if not golden.calls:
            continue
        expected = [(call.name, call.arguments) for call in golden.calls]
        for parts in parts_of(vllm.without_reasoning(golden.text), marks):
            counts["vllm_readings"] += 1
            counts["vllm_right"] += _reading(vllm.streamed, parts) == expected
        for parts in parts_of(golden.text, marks):
            counts["our_readings"] += 1
            counts["ours_right"] += _reading(partial(_ours, model, golden), parts) == expected
    return dict(counts)


def _reading(read: Callable[[Sequence[str]], Any], parts: Sequence[str]) -> Any:
    try:
        return read(parts)
    except Exception as error:  # noqa: BLE001 - what a parser raises is its result
        return error


def _ours(model: DialectModel, golden: Golden, parts: Sequence[str]) -> list[tuple[str, Any]]:
    vocabulary = model.vocabulary
    segmenter = Segmenter(
        model.dialect, vocabulary.marks, schemas=SCHEMAS, reasoning_open=golden.reasoning_open
    )
    events: list[Any] = []
    for part in parts:
        ids = vocabulary.literal_tokens(vocabulary.form.marks.encode(part))
        texts = vocabulary.tokenizer.batch_decode([[token] for token in ids])
        events += segmenter.feed(ids, texts)
    events += segmenter.finish("stop")
    return [(name, json.loads(arguments)) for name, arguments in calls_in(events)]


def main() -> None:
    parser = commands.parser_of(__doc__)
    parser.add_argument("--dialects", default="", help="names, separated by commas; all by default")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    names = options.dialects.split(",") if options.dialects else [*PARSERS]
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in names:
        found = measure(DIALECTS[name])
        print(f"{name:16} {found}", flush=True)
        results.setdefault(name, {})["split_transcripts"] = found
        options.out.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
