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

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from random import Random

import numpy as np
from numpy.typing import NDArray

from tests.long.hostile_tools import tools
from tests.long.outcomes import Outcome, Runs, parser_of, side_by_side
from tests.support.dialects.model import DialectModel, EndingChoice, calls_in
from tests.support.schemas.judge import schema_violation
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar, measure
from toolgate_backend.grammars.least_tokens import LeastTokens
from toolgate_backend.tokens import masks
from toolgate_core.deltas import Event, Finish
from toolgate_core.dialects.mark_texts import mark_texts
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

Choose = Callable[[NDArray[np.int64]], int]
"""The next token, of those that are allowed."""


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
        self._machine = Automaton(model.data, spec, [each.grammar for each in offered], None)
        self._row = np.zeros((model.vocabulary.size + 31) // 32, dtype=np.int32)
        self._choose: Choose = rng.choice(
            (self._uniform, EndingChoice(model, rng), self._repeating)
        )
        self._favourite: dict[int, int] = {}

    def wrong(self) -> str | None:
        """What is wrong with the walk; None if nothing is."""
        tokens: list[int] = []
        budget = self._spec.budget
        assert budget is not None
        while len(tokens) < budget and not self._machine.is_terminated():
            allowed = self._allowed()
            if not len(allowed):
                return f"no token is allowed after {len(tokens)} tokens"
            if self._rng.random() < DRAFTED and (wrong := self._draft(allowed)) is not None:
                return wrong
            token = self._choose(allowed)
            if not self._machine.accept_tokens([token]):
                return f"token {token} of the mask is refused after {len(tokens)} tokens"
            tokens.append(token)
        self._counts["token steps"] += len(tokens)
        self._counts["walks"] += 1
        return self._judge(tokens)

    def _judge(self, tokens: Sequence[int]) -> str | None:
        ended = self._machine.is_terminated()
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

    def _allowed(self) -> NDArray[np.int64]:
        self._machine.fill_bitmask(self._row)
        return masks.unpack(self._row)

    def _draft(self, allowed: NDArray[np.int64]) -> str | None:
        """Accepts some tokens, computes their masks, and takes them back."""
        before, following, drafts = self._row.copy(), allowed, 0
        while drafts < 4 and len(following) and not self._machine.is_terminated():
            if not self._machine.accept_tokens([int(self._rng.choice(following))]):
                return "a draft of the mask is refused"
            drafts += 1
            if not self._machine.is_terminated():
                following = self._allowed()
        self._machine.rollback(drafts)
        self._counts["drafts"] += drafts
        self._machine.fill_bitmask(self._row)
        return None if np.array_equal(before, self._row) else "another mask after a rollback"

    # --- how tokens are chosen ---

    def _uniform(self, allowed: NDArray[np.int64]) -> int:
        return int(self._rng.choice(allowed))

    def _repeating(self, allowed: NDArray[np.int64]) -> int:
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
