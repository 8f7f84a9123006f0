"""Engine steps a token of a tool call takes, by what is drafted.

    python -m bench.micro.drafts MODEL_DIR [--cases N] > table.md

Over BFCL's cases with one known call: the tokens of the true answer, behind the prompt that Qwen3's
template makes of the case. A step takes the drafts that agree with the true answer and one token
more, as vLLM's would for a model that gives this answer; the model itself plays no part. Drafters:

- prompt: what followed in the prompt the last time its last 4 … 2 tokens stood there (ngram)
- forced: the text that the grammar says must come (enforcement/forecast.py)
- both: as the adapter structured_output drafts
"""

import argparse
import gzip
import json
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.support.vocabularies import vocabulary_of
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.jump_forward import JumpForward
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.enforcement.static_masks import StaticMasks
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.vocabulary import Vocabulary
from toolgate_core.errors import ToolgateError
from toolgate_core.tools import parse_tools

SHARED = Path(os.environ.get("TOOLGATE_SHARED", Path(__file__).resolve().parents[3] / "shared"))
LIMITS = (4, 8, 16)
LONGEST, SHORTEST = 4, 2

Drafter = Callable[[Automaton, Sequence[int], int], Sequence[int]]


@dataclass
class Case:
    prompt: list[int]
    answer: list[int]
    automaton: Automaton


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--cases", type=int, default=400)
    options = parser.parse_args()
    vocabulary = vocabulary_of(options.model)
    forecast = JumpForward(vocabulary.encode)
    cases = []
    for case in read(vocabulary):
        cases.append(case)
        if len(cases) == options.cases:
            break
    drafters: dict[str, Drafter] = {
        "prompt": lambda machine, tokens, limit: machine.validate_tokens(looked_up(tokens, limit)),
        "forced": lambda machine, tokens, limit: forecast.drafts(machine, [], limit),
        "both": lambda machine, tokens, limit: forecast.drafts(
            machine, looked_up(tokens, limit), limit
        ),
    }
    tokens = sum(len(case.answer) for case in cases)
    print(
        f"{len(cases)} calls of {tokens:,} tokens; steps a token, median of the calls (p10–p90)\n"
    )
    print("| drafts at most | " + " | ".join(drafters) + " |\n" + "| --- " * 4 + "|")
    for limit in LIMITS:
        cells = []
        for drafter in drafters.values():
            shares = [steps(case, drafter, limit) / len(case.answer) for case in cases]
            deciles = statistics.quantiles(shares, n=10)
            cells.append(f"{statistics.median(shares):.2f} ({deciles[0]:.2f}–{deciles[8]:.2f})")
        print(f"| {limit} | " + " | ".join(cells) + " |")


def steps(case: Case, drafter: Drafter, limit: int) -> int:
    machine, at, count = case.automaton, 0, 0
    machine.reset()
    while at < len(case.answer):
        drafts = drafter(machine, [*case.prompt, *case.answer[:at]], limit)
        pairs = zip(drafts, case.answer[at:], strict=False)
        agreed = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if agreed is None:
            agreed = min(len(drafts), len(case.answer) - at)
        taken = case.answer[at : at + agreed + 1]
        assert machine.accept_tokens(taken)
        at += len(taken)
        count += 1
    return count


def looked_up(tokens: Sequence[int], limit: int) -> list[int]:
    """As vLLM's ngram drafter: the longest end of the text that stood there before."""
    for length in range(LONGEST, SHORTEST - 1, -1):
        end = list(tokens[-length:])
        for at in range(len(tokens) - length):
            if tokens[at : at + length] == end:
                return list(tokens[at + length : at + length + limit])
    return []


def read(vocabulary: Vocabulary) -> Iterator[Case]:
    static_masks, compiler = (
        StaticMasks(vocabulary),
        Compiler.from_vocabulary(vocabulary, cache_bytes=2**30),
    )
    with gzip.open(SHARED / "data" / "bfcl.jsonl.gz", "rt") as lines:
        for line in lines:
            case = json.loads(line)
            if len(case["ground_truth"] or ()) != 1:
                continue
            try:
                tools = parse_tools(case["tools"])
            except ToolgateError:
                continue
            found = [
                compiler.compile("key", tool.name, json.dumps(tool.parameters)) for tool in tools
            ]
            grammars = [
                MeasuredGrammar(outcome.grammar, None, 0)
                for outcome in found
                if outcome.grammar is not None
            ]
            [(name, given)] = case["ground_truth"][0].items()
            schema = next((tool.parameters for tool in tools if tool.name == name), None)
            if len(grammars) < len(tools) or schema is None:
                continue
            keys = tuple(str(at) for at in range(len(grammars)))
            machine = Automaton(static_masks, Spec("required", keys, max_calls=1), grammars)
            answer = _answer(vocabulary, name, _ordered(_chosen(given), schema))
            if machine.accept_tokens(answer):
                yield Case(_prompt(vocabulary, case), answer, machine)


def _answer(vocabulary: Vocabulary, name: str, arguments: Any) -> list[int]:
    marks, dialect = vocabulary.marks, vocabulary.dialect
    assert marks.call_begin is not None
    assert marks.call_end is not None
    written = json.dumps(arguments, ensure_ascii=False)
    head = dialect.envelope_head + name + dialect.envelope_middle
    body = vocabulary.encode(head + written + dialect.envelope_tail)
    return [marks.call_begin, *body, marks.call_end, vocabulary.tokenizer.eos_token_id]


def _chosen(given: dict[str, list[Any]]) -> dict[str, Any]:
    """BFCL lists the values that are right; "" says that the argument may be left out."""
    return {
        name: _chosen(values[0]) if _is_choice(values[0]) else values[0]
        for name, values in given.items()
        if values and values[0] != ""
    }


def _is_choice(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, list) for each in value.values())


def _ordered(arguments: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """In the order of the schema, which xgrammar holds calls to."""
    order = list(schema.get("properties", {}))
    return dict(
        sorted(arguments.items(), key=lambda item: order.index(item[0]) if item[0] in order else 99)
    )


def _prompt(vocabulary: Vocabulary, case: Any) -> list[int]:
    text = vocabulary.tokenizer.apply_chat_template(
        case["messages"], tools=case["tools"], add_generation_prompt=True, tokenize=False
    )
    return list(vocabulary.encode(text))


if __name__ == "__main__":
    main()
