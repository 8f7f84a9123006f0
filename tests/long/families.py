"""Random walks of every dialect, read by our segmenter, by a reader of complete texts, and by
vLLM's parser of the family.

    python -m tests.long families [--walks 2000] [--splits 20] [--dialects a,b] [--out FILE]

Every walk is a turn with a required call under the masks of the enforcement, with marks as tokens
and as text in turn, over tools whose strings are close to the marks of the dialect. Each call is
validated by jsonschema. The result is written after each dialect to docs/families.json, from which
`make docs` makes the table in docs/reference/families.md.
"""

from __future__ import annotations

import json
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jsonschema

from tests import tools
from tests.models import ROOT
from tests.support import commands
from tests.support.dialects.model import DialectModel, calls_in, walk
from tests.support.dialects.text_reader import calls_of
from toolgate_core.dialects.dialect import Dialect
from toolgate_core.dialects.mark_texts import mark_texts
from toolgate_core.dialects.registry import DIALECTS

OUT = ROOT / "docs" / "families.json"
LIMIT = 300
"""Maximum number of tokens of a walk."""
SHOWN = 3
"""Number of disagreements that are shown for each dialect."""
COUNTED = ("walks", "calls", "invalid", "splits", "differ", "text_differ")
Calls = list[tuple[str, Any]]
PARSERS = {
    "deepseek_r1": "deepseek_v3",
    "deepseek_v31": "deepseek_v31",
    "deepseek_v32": "deepseek_v32",
    "deepseek_v4": "deepseek_v4",
    "deepseek_v41": "deepseek_v41",
    "dots": "dots",
    "ernie45": "ernie45",
    "gigachat3": "gigachat3",
    "glm45": "glm45",
    "glm47": "glm47",
    "granite20b": "granite-20b-fc",
    "granite3": "granite",
    "granite33": "granite",
    "granite4": "granite4",
    "hermes": "hermes",
    "hunyuan_a13b": "hunyuan_a13b",
    "inkling": "inkling",
    "internlm2": "internlm",
    "jamba": "jamba",
    "k2_horizon": "k2_horizon",
    "kimi_k2": "kimi_k2",
    "kimi_k3": "kimi_k3",
    "longcat": "longcat",
    "mimo_v2": "mimo",
    "minicpm5": "minicpm5",
    "minimax_m2": "minimax_m2",
    "mistral_v11": "mistral",
    "mistral_v13": "mistral",
    "mistral_v3": "mistral",
    "phi4mini": "phi4_mini_json",
    "qwen3": "hermes",
    "qwen3_5": "qwen3_coder",
    "qwen3_coder": "qwen3_coder",
    "seed_oss": "seed_oss",
    "step3": "step3",
    "step3_5": "step3p5",
    "xlam": "xlam",
}
"""By dialect: the name of vLLM's parser."""

EDIT = tools.tool(
    "edit",
    {
        "path": {"type": "string", "minLength": 1, "maxLength": 40},
        "text": {"type": "string"},
        "line": {"type": ["integer", "null"]},
        "mode": {"enum": ["insert", "replace all", "</parameter>x"]},
    },
    ["text", "mode"],
)
NOTHING = tools.tool("nothing", {})
OFFERED = [*tools.ALL, EDIT, NOTHING]


def measure(dialect: Dialect, walks: int, splits: int) -> dict[str, Any]:
    """The counts of one dialect."""
    counts: Counter[str] = Counter()
    shown: list[str] = []
    for tokens in ((), mark_texts(dialect)):
        model = DialectModel(dialect, tokens, OFFERED)
        _walk_all(model, walks // 2, splits, counts, shown)
    for text in shown:
        print(f"   {text}")
    read = ("vllm_read", "vllm_differ") if counts["vllm_read"] else ()
    return {key: counts[key] for key in (*COUNTED, *read)}


def _walk_all(
    model: DialectModel, walks: int, splits: int, counts: Counter[str], shown: list[str]
) -> None:
    schemas = {t["function"]["name"]: t["function"]["parameters"] for t in OFFERED}
    dialect, dice = model.dialect, random.Random(1)
    reader = None
    if dialect.name in PARSERS and model.vocabulary.marks.tokens:
        reader = vllm_reader(dialect, model.vocabulary.tokenizer, OFFERED)
    machine = model.automaton(choice="required")
    for seed in range(walks):
        machine.reset()
        tokens, _, whole = walk(machine, model, seed, LIMIT)
        if not whole:
            continue
        counts["walks"] += 1
        calls = calls_in(model.segment(tokens, required=True))
        counts["calls"] += len(calls)
        counts["invalid"] += sum(not _is_valid(schemas[name], text) for name, text in calls)
        for _ in range(splits):
            at = [dice.randrange(len(tokens)) for _ in range(4)]
            counts["splits"] += 1
            counts["differ"] += calls_in(model.segment(tokens, at, required=True)) != calls
        text = model.text(tokens)
        expected = [(name, json.loads(arguments)) for name, arguments in calls]
        read = partial(calls_of, text, dialect, schemas)
        _compare("text", read, text, expected, counts, shown)
        if reader is not None:
            _compare("vllm", partial(reader, text), text, expected, counts, shown)


def vllm_reader(
    dialect: Dialect, tokenizer: Any, offered: Sequence[dict[str, Any]]
) -> Callable[[str], Calls]:
    """Return what reads the calls of a turn with vLLM's parser of the dialect, and raises whatever
    the parser raises."""
    from vllm.entrypoints.openai.chat_completion.protocol import ChatCompletionRequest
    from vllm.tool_parsers import ToolParserManager

    end = dialect.reasoning.end if dialect.reasoning else None
    make = ToolParserManager.get_tool_parser(PARSERS[dialect.name])
    request = ChatCompletionRequest(
        messages=[{"role": "user", "content": "x"}], tools=list(offered), model="m"
    )

    def read(text: str) -> Calls:
        after_reasoning = text[text.index(end) + len(end) :] if end and end in text else text
        found = make(tokenizer, request.tools).extract_tool_calls(after_reasoning, request)
        functions = [call.function for call in found.tool_calls]
        return [(each.name, json.loads(each.arguments)) for each in functions]

    return read


def _compare(
    reader: str,
    read: Callable[[], Calls],
    text: str,
    expected: Calls,
    counts: Counter[str],
    shown: list[str],
) -> None:
    try:
        found: Any = read()
    except Exception as error:  # noqa: BLE001 - what a parser raises is its result
        found = f"{type(error).__name__}: {error}"
    counts[f"{reader}_read"] += 1
    if found != expected:
        counts[f"{reader}_differ"] += 1
        if len(shown) < SHOWN:
            shown.append(
                f"{text[:300]!r}\n      ours {expected!r:.300}\n      {reader} {found!r:.300}"
            )


def _is_valid(schema: dict[str, Any], arguments: str) -> bool:
    try:
        jsonschema.validate(json.loads(arguments), schema)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def main() -> None:
    parser = commands.parser_of(__doc__)
    parser.add_argument("--walks", type=int, default=2000)
    parser.add_argument("--splits", type=int, default=20, help="splits of each walk")
    parser.add_argument("--dialects", default="", help="names, separated by commas; all by default")
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)
    names = options.dialects.split(",") if options.dialects else [*DIALECTS]
    results: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for name in names:
        if DIALECTS[name].calls is None:
            continue
        started = time.monotonic()
        found = measure(DIALECTS[name], options.walks, options.splits)
        results[name] = results.get(name, {}) | found
        print(f"{name:16} {found} ({time.monotonic() - started:.0f} s)", flush=True)
        options.out.write_text(json.dumps(results, indent=1, sort_keys=True) + "\n")
