"""Walk at random through the masks of hostile tools, in all dialects, and validate each call.

    python -m tests.long walks --steps 10000000 --out FILE
    python -m tests.long walks --seed 17                      # one of them again

Each seed is a dialect, with its marks as tokens or as text, and one to three tools with random
schemas. Tokens are chosen of those that the masks allow: at random, with a liking for ends, or the
same again and again. Drafts are accepted and taken back between them. Reported are masks that allow
nothing, allowed tokens that are refused, masks that differ after a rollback, calls that violate a
schema which masks enforce completely, and required calls that do not begin within their budget.

With --out, the outcome of each seed is a line of FILE, and seeds that it has are not run again. The
exit status is 1 if something is wrong.
"""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from random import Random
from typing import Any

import numpy as np

from tests.long.outcomes import Outcome, Runs, parser_of, side_by_side
from tests.support.dialects.model import DialectModel, EndingChoice, calls_in, measure
from tests.support.schemas.judge import schema_violation
from tests.support.walker.walk import Allowed, Choose, Enforced, walk
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar
from toolgate_backend.grammars.least_tokens import LeastTokens
from toolgate_core.deltas import Event, Finish
from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import ToolgateError
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.tools import Tool, parse_tools

FAMILIES = tuple(name for name, dialect in DIALECTS.items() if dialect.calls is not None)
SAME_DIALECT = 64
"""Seeds in a row with one dialect, because its tokenizer takes seconds to load."""
WALKS = 12
"""Walks with each set of tools."""
BUDGETS = (60, 120, 300, 800)
REPETITION = 128
"""Tokens after which a call may not go on to repeat itself."""
SEED_SECONDS = 600
"""A seed that takes longer is a violation. The slowest ones take a minute."""
DRAFTED = 0.03
"""Share of the steps before which some tokens are drafted and taken back."""


@dataclass(frozen=True)
class Offered:
    """A tool with its grammar."""

    tool: Tool
    grammar: MeasuredGrammar
    masked: bool
    """Whether masks enforce the whole schema."""

    def violation(self, arguments: str) -> str | None:
        """What is wrong with the arguments of a complete call. Only their JSON form matters where
        keywords are left to validation."""
        value = json.loads(arguments)
        if not self.masked:
            return None
        return schema_violation(self.tool.parameters, value)


@lru_cache(maxsize=2)
def model_of(family: str, marks: bool) -> DialectModel:
    dialect = DIALECTS[family]
    return DialectModel(dialect, mark_texts(dialect) if marks else ())


def run(seed: int) -> Outcome:
    """All walks of one seed. Called in the main thread of a process."""
    outcome, began = Outcome(seed), time.monotonic()
    signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(SEED_SECONDS)
    try:
        _run(seed, outcome)
    except TimeoutError:
        outcome.violations.append(f"did not end within {SEED_SECONDS} s")
    finally:
        signal.alarm(0)
    outcome.seconds = time.monotonic() - began
    return outcome


def _give_up(number: int, frame: object) -> None:
    raise TimeoutError


def _run(seed: int, outcome: Outcome) -> None:
    rng, drawn = Random(f"walks-{seed}"), Random(f"dialect-{seed // SAME_DIALECT}")
    family, marks = drawn.choice(FAMILIES), drawn.random() < 0.7
    model = model_of(family, marks)
    offered = [made for tool in parse_tools(tools(rng)) if (made := _offer(model, tool, outcome))]
    if not offered:
        return
    for number in range(WALKS):
        spec = _spec(rng, model, offered)
        found = _Walk(model, offered, spec, Random(f"{seed}-{number}"), outcome.counts).wrong()
        if found is not None:
            place = f"{family}, marks {'tokens' if marks else 'text'}, walk {number}"
            outcome.violations.append(f"{place}: {found}")


def _offer(model: DialectModel, tool: Tool, outcome: Outcome) -> Offered | None:
    compiled = model.compiler.compile("key", tool.name, canonical_json(tool.parameters))
    outcome.counts[f"tools: {compiled.verdict.status}"] += 1
    if compiled.grammar is None:
        return None
    rewritten = compiled.verdict.rewritten
    least = LeastTokens(model.vocabulary.form, model.data.token_index)
    grammar = measure(compiled.grammar, tool.name, tool.parameters, least, rewritten)
    residual = compiled.verdict.residual
    outcome.counts["tools: partly validated"] += bool(residual)
    return Offered(tool, grammar, masked=not residual)


def _spec(rng: Random, model: DialectModel, offered: Sequence[Offered]) -> Spec:
    least = max(each.grammar.least_tokens or 0 for each in offered)
    return Spec(
        choice=rng.choice(("auto", "required")),
        max_calls=rng.choice((1, 2, None)),
        budget=rng.choice(BUDGETS) + 2 * least + 40,
        repetition_tokens=rng.choice((0, REPETITION)),
        id_seed="walk",
        earlier_calls=1,
    )


class _Walk:
    def __init__(
        self,
        model: DialectModel,
        offered: Sequence[Offered],
        spec: Spec,
        rng: Random,
        counts: Counter[str],
    ) -> None:
        self._model, self._spec, self._rng, self._counts = model, spec, rng, counts
        self._offered = {each.tool.name: each for each in offered}
        machine = Automaton(model.turns, spec, [each.grammar for each in offered], None)
        self._source = Enforced(machine, model.vocabulary.size)
        self._favourite: dict[int, int] = {}

    def wrong(self) -> str | None:
        """What is wrong with the walk; None if nothing is."""
        choose: Choose = self._rng.choice(
            (self._uniform, EndingChoice(self._model, self._rng), self._repeating)
        )
        assert self._spec.budget is not None
        try:
            walk(self._source, choose, self._spec.budget, self._draft)
        except AssertionError as error:
            return f"{error} (after {len(self._source.tokens)} tokens)"
        self._counts["token steps"] += len(self._source.tokens)
        self._counts["walks"] += 1
        return self._judge(self._source.tokens)

    def _judge(self, tokens: Sequence[int]) -> str | None:
        ended = self._source.finished
        try:
            events = self._events(tokens, ended)
        except ToolgateError as error:
            return f"{type(error).__name__}: {error}"
        finish = events[-1]
        assert isinstance(finish, Finish)
        calls = calls_in(events)
        whole = calls[:-1] if finish.call == "cut" else calls
        self._counts["calls"] += len(whole)
        self._counts["calls: cut"] += finish.call == "cut"
        self._counts["calls: repeated"] += finish.repeats
        if self._spec.choice == "required" and not calls:
            return "a required call did not begin within its budget"
        for name, arguments in whole:
            if (wrong := self._offered[name].violation(arguments)) is not None:
                return f"{name}: {wrong}"
            self._counts["calls: validated"] += self._offered[name].masked
        return None

    def _events(self, tokens: Sequence[int], ended: bool) -> list[Event]:
        schemas = {name: each.tool.parameters for name, each in self._offered.items()}
        if ended:
            return self._model.segment(tokens, stop=tokens[-1], schemas=schemas)
        return self._model.segment(tokens, reason="length", schemas=schemas)

    def _draft(self, allowed: Allowed) -> None:
        """Now and then, accept some tokens, compute their masks, and take them back."""
        machine, following, drafts = self._source.machine, allowed, 0
        if self._rng.random() >= DRAFTED:
            return
        while drafts < 4 and len(following) and not machine.is_terminated():
            assert machine.accept_tokens([int(self._rng.choice(following))]), "a draft is refused"
            drafts += 1
            if not machine.is_terminated():
                following = self._source.allowed()
        machine.rollback(drafts)
        self._counts["drafts"] += drafts
        assert np.array_equal(self._source.allowed(), allowed), "another mask after a rollback"

    # --- how tokens are chosen ---

    def _uniform(self, allowed: Allowed) -> int:
        return int(self._rng.choice(allowed))

    def _repeating(self, allowed: Allowed) -> int:
        """The same token wherever as many tokens are allowed."""
        wanted = self._favourite.setdefault(len(allowed), int(self._rng.choice(allowed)))
        return wanted if wanted in allowed else int(self._rng.choice(allowed))


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--steps", type=int, default=100_000, help="token steps in all")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if options.seed is not None:
        runs = Runs()
        runs.add(run(options.seed))
    else:
        runs = Runs(options.out)
        seeds = runs.missing(count())
        with closing(side_by_side(run, seeds, options.processes, SAME_DIALECT)) as found:
            while runs.total("token steps") < options.steps:
                runs.add(next(found))
    return runs.report("seeds")


Schema = dict[str, Any]

NAMES = ("city", "a", "b", "é", "北京", "long name of it", 'quo"te', "</tool_call>", "x-y", "__1")
TEXTS = ("", "a", "bc", "é🙂", "x y", '"', "\\", "\n", "</think>", "null", "1", "true")
PATTERNS = ("^[A-Z]{2}-\\d{3}$", "^a*b$", "(foo|bar)+", "^\\S+@\\S+$", "^.{3,6}$", "[^x]")
FORMATS = ("date", "date-time", "uuid", "ipv4", "email")


def tools(rng: Random) -> list[Schema]:
    """One to three functions as OpenAI's API has them."""
    return [
        {"type": "function", "function": {"name": f"tool_{at}", "parameters": parameters(rng)}}
        for at in range(rng.choice((1, 1, 2, 3)))
    ]


def parameters(rng: Random) -> Schema:
    made = _object(rng, 0)
    if rng.random() < 0.15:
        made["$defs"] = {"node": _object(rng, 2)}
        made["$defs"]["node"]["properties"]["next"] = {"$ref": "#/$defs/node"}
        made["properties"]["tree"] = {"$ref": "#/$defs/node"}
    return made


def value(rng: Random, depth: int) -> Schema:
    kinds = [_text, _text, _number, _listed, _plain]
    if depth < 4:
        kinds += [_object, _array, _array, _several]
    return rng.choice(kinds)(rng, depth)


def _plain(rng: Random, depth: int) -> Schema:
    return rng.choice(({"type": "boolean"}, {"type": "null"}, {"type": ["string", "null"]}, {}))


def _text(rng: Random, depth: int) -> Schema:
    made: Schema = {"type": "string"}
    match rng.randrange(5):
        case 0:
            made["minLength"] = rng.randrange(4)
            made["maxLength"] = made["minLength"] + rng.choice((0, 1, 9, 200))
        case 1:
            made["pattern"] = rng.choice(PATTERNS)
        case 2:
            made["format"] = rng.choice(FORMATS)
    return made


def _number(rng: Random, depth: int) -> Schema:
    made: Schema = {"type": rng.choice(("integer", "number"))}
    if rng.random() < 0.6:
        low = rng.choice((-1000, -1, 0, 1, 7))
        made["minimum"], made["maximum"] = low, low + rng.choice((0, 1, 12, 100_000))
    if rng.random() < 0.15:
        made["multipleOf"] = rng.choice((2, 5, 0.5))
    return made


def _listed(rng: Random, depth: int) -> Schema:
    values: list[Any] = [*rng.sample(TEXTS, rng.randint(1, 4)), *rng.sample([None, 1, 0.5], 1)]
    return {"enum": values} if rng.random() < 0.8 else {"const": values[0]}


def _array(rng: Random, depth: int) -> Schema:
    made: Schema = {"type": "array", "items": value(rng, depth + 1)}
    if rng.random() < 0.7:
        made["minItems"] = rng.choice((0, 1, 2, 5))
        made["maxItems"] = made["minItems"] + rng.choice((0, 1, 3))
    if rng.random() < 0.2:
        made["uniqueItems"] = True
        made["items"] = {"enum": rng.sample(TEXTS, 6)}
    return made


def _object(rng: Random, depth: int) -> Schema:
    names = rng.sample(NAMES, rng.randint(0, 4))
    made: Schema = {
        "type": "object",
        "properties": {name: value(rng, depth + 1) for name in names},
        "required": [name for name in names if rng.random() < 0.6],
    }
    match rng.randrange(4):
        case 0:
            made["additionalProperties"] = value(rng, depth + 2)
        case 1:
            made["additionalProperties"] = False
        case 2 if names:
            made["dependentRequired"] = {names[0]: names[-1:]}
    return made


def _several(rng: Random, depth: int) -> Schema:
    parts = [value(rng, depth + 1) for _ in range(rng.randint(2, 3))]
    match rng.randrange(3):
        case 0:
            return {"oneOf": parts}
        case 1:
            return {"anyOf": parts, "description": "beside others"}
        case _:
            return {"if": parts[0], "then": parts[1]} if rng.random() < 0.3 else {"anyOf": parts}
