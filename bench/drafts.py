"""Engine steps per token of a tool call, for each kind of draft.

    python -m bench drafts MODEL_DIR [--cases N] > table.md

Uses the BFCL cases with one reference call: the tokens of that call, after the prompt that Qwen3's
template makes of the case. No model runs. A step accepts the drafts that agree with the reference
call, and one more token, as vLLM would with a model that generates this call. Drafters:

- prompt: the tokens that followed the last 4 … 2 tokens at their first occurrence (ngram)
- forced: the text that the grammar forces (backend's enforcement/jump_forward.py)
- both: as the adapter structured_output drafts
- forced, async: forced text under async scheduling, where a step's drafts are chosen while the step
  before it still runs
- both, async: as with TOOLGATE_FORCED_DRAFTS, in the first call of a tool
- later call, async: the same, after EARLIER_CALLS calls of the tool with other arguments
"""

import argparse
import json
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from bench.support.tools import Reference, call_tokens, natural_value, reference_calls
from tests.support.markdown import table
from tests.support.vocabularies import vocabulary_of
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.jump_forward import JumpForward, RepeatedText, learn
from toolgate_backend.enforcement.model_data import ModelData
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.enforcement.turn_graph import TurnGraphs
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar, limits_of
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core.errors import ToolgateError
from toolgate_core.tools import parse_tools

LIMITS = (4, 8, 16)
LONGEST, SHORTEST = 4, 2
EARLIER_CALLS = 3

Drafter = Callable[[Automaton, Sequence[int], int], Sequence[int]]
Count = Callable[..., int]


@dataclass
class Case:
    prompt: list[int]
    call: list[int]
    """Tokens of the reference call."""
    earlier: list[list[int]]
    """The tokens of calls of the same tool with other arguments."""
    automaton: Automaton


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", help="directory of a model with the vocabulary")
    parser.add_argument("--cases", type=int, default=400, help="maximum number of cases")
    options = parser.parse_args()
    vocabulary = vocabulary_of(options.model)
    jump_forward = JumpForward(vocabulary.encode)
    cases = []
    for case in read_cases(vocabulary):
        cases.append(case)
        if len(cases) == options.cases:
            break
    drafters: dict[str, Drafter] = {
        "prompt": lambda machine, tokens, limit: machine.validate_tokens(
            ngram_drafts(tokens, limit)
        ),
        "forced": lambda machine, tokens, limit: jump_forward.drafts(machine, [], limit),
        "both": lambda machine, tokens, limit: jump_forward.drafts(
            machine, ngram_drafts(tokens, limit), limit
        ),
    }
    kinds: dict[str, Count] = {
        name: partial(steps, drafter=drafter) for name, drafter in drafters.items()
    }
    kinds["forced, async"] = partial(async_steps, jump_forward=jump_forward, from_text=False)
    kinds["both, async"] = partial(async_steps, jump_forward=jump_forward, from_text=True)
    tokens = sum(len(case.call) for case in cases)
    print(
        f"{len(cases)} calls of {tokens:,} tokens; steps per token, median of the calls (p10–p90)\n"
    )
    header = ["maximum drafts", *kinds, "later call, async"]
    columns = [[cell(cases, count, limit) for limit in LIMITS] for count in kinds.values()]
    for case in cases:
        learn_earlier(case)
    columns.append([cell(cases, kinds["both, async"], limit) for limit in LIMITS])
    print(table(header, zip(LIMITS, *columns, strict=True)))


def cell(cases: Sequence[Case], count: Count, limit: int) -> str:
    shares = [count(case, limit=limit) / len(case.call) for case in cases]
    deciles = statistics.quantiles(shares, n=10)
    return f"{statistics.median(shares):.2f} ({deciles[0]:.2f}–{deciles[8]:.2f})"


def learn_earlier(case: Case) -> None:
    """Let the graph see the earlier calls, up to the first token that is not allowed."""
    for call in case.earlier:
        case.automaton.reset()
        case.automaton.accept_tokens(call)
        learn(case.automaton.last_steps(len(call)))


def steps(case: Case, drafter: Drafter, limit: int) -> int:
    machine, at, count = case.automaton, 0, 0
    machine.reset()
    while at < len(case.call):
        drafts = drafter(machine, [*case.prompt, *case.call[:at]], limit)
        at += _step(case, at, drafts)
        count += 1
    return count


def async_steps(case: Case, jump_forward: JumpForward, limit: int, *, from_text: bool) -> int:
    machine, at, count = case.automaton, 0, 0
    machine.reset()
    text = RepeatedText(case.prompt) if from_text else None
    drafts: Sequence[int] = ()
    while at < len(case.call):
        if text is not None:
            text.update(machine.tokens)
        planned = jump_forward.plan(machine, drafts, limit, text)
        at += _step(case, at, drafts[: planned.valid])
        drafts = planned.following
        count += 1
    return count


def _step(case: Case, at: int, drafts: Sequence[int]) -> int:
    """The number of tokens that a step with the drafts accepts."""
    pairs = zip(drafts, case.call[at:], strict=False)
    agreed = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
    if agreed is None:
        agreed = min(len(drafts), len(case.call) - at)
    taken = case.call[at : at + agreed + 1]
    assert case.automaton.accept_tokens(taken)
    return len(taken)


def ngram_drafts(tokens: Sequence[int], limit: int) -> list[int]:
    """Drafts like those of vLLM's ngram drafter: what followed the longest repeated suffix."""
    for length in range(LONGEST, SHORTEST - 1, -1):
        end = list(tokens[-length:])
        for at in range(len(tokens) - length):
            if tokens[at : at + length] == end:
                return list(tokens[at + length : at + length + limit])
    return []


def read_cases(vocabulary: Vocabulary) -> Iterator[Case]:
    turns, compiler = (
        TurnGraphs(ModelData(vocabulary)),
        Compiler.from_vocabulary(vocabulary, cache_bytes=2**30),
    )
    for case in reference_calls():
        try:
            tools = parse_tools(case.tools)
        except ToolgateError:
            continue
        found = [compiler.compile("key", tool.name, json.dumps(tool.parameters)) for tool in tools]
        grammars = [
            MeasuredGrammar(outcome.grammar, None, tool.name, limits=limits_of(tool.parameters))
            for tool, outcome in zip(tools, found, strict=True)
            if outcome.grammar is not None
        ]
        if len(grammars) < len(tools):
            continue
        keys = tuple(str(at) for at in range(len(grammars)))
        machine = Automaton(turns, Spec("required", keys, max_calls=1), grammars)
        call = call_tokens(vocabulary, case.name, case.arguments)
        rng = random.Random(1)
        others = [natural_value(case.schema, rng) for _ in range(EARLIER_CALLS)]
        earlier = [call_tokens(vocabulary, case.name, other) for other in others]
        if machine.accept_tokens(call):
            yield Case(_prompt(vocabulary, case), call, earlier, machine)


def _prompt(vocabulary: Vocabulary, case: Reference) -> list[int]:
    text = vocabulary.tokenizer.apply_chat_template(
        case.messages, tools=case.tools, add_generation_prompt=True, tokenize=False
    )
    return list(vocabulary.encode(text))
