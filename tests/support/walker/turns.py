"""Random turns under the enforcement, by profiles, and their judge."""

import json
import random
import re
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations
from typing import Any

import jsonschema
import numpy as np
import pytest

from tests.support.dialects.model import PARAMETERS, DialectModel, EndingChoice, calls_in
from tests.support.dialects.text_reader import read_turn
from tests.support.walker.shapes import SHAPES
from tests.support.walker.walk import Enforced, mask_of, walk
from toolgate_backend.endpoint.sampling import check_budget
from toolgate_backend.enforcement.jump_forward import JumpForward
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.tokens import masks
from toolgate_core.deltas import CallEnd, ContentDelta, Finish, ReasoningDelta
from toolgate_core.dialects.dialect import Json
from toolgate_core.dialects.marks import mark_texts, special_tokens
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import BudgetTooSmall

FORMATS = {
    "object": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
    "number": {"type": "number"},
    "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 4},
    "enum": {"enum": [1, 12, "a", None]},
    "pattern": {"type": "object", "properties": {"x": {"type": "string", "pattern": "^[a-z]{3}$"}}},
}
FACTORS = {
    "marks": ("tokens", "text", "added"),
    "choice": ("required", "auto", "none"),
    "reasoning": ("closed", "may", "must", "open"),
    "content": (None, *FORMATS),
    "limit": ("none", "one call", "thoughts", "budget", "small budget"),
}
THOUGHTS = 4
"""Tokens of reasoning in profiles with a limit."""
CHECKED = 0.04
"""Share of the steps before which each of the checks between steps is made."""


@dataclass(frozen=True)
class Profile:
    """`dialect`: one of the registry, or a made-up one. `marks`: whether they are special tokens,
    tokens that are not special, or text. `limit`: what the request limits."""

    dialect: str
    marks: str = "tokens"
    choice: str = "required"
    reasoning: str = "closed"
    content: str | None = None
    limit: str = "none"

    def __str__(self):
        return "-".join(str(each) for each in vars(self).values() if each not in (None, "none"))

    @property
    def usable(self):
        """The nearest profile that a request may have."""
        made = self
        is_shape = made.dialect in SHAPES
        dialect = SHAPES[made.dialect].dialect if is_shape else DIALECTS[made.dialect]
        if is_shape or (made.marks == "added" and not special_tokens(dialect)):
            made = replace(made, marks="tokens")
        if dialect.reasoning is None:
            made = replace(made, reasoning="closed")
        if made.reasoning == "closed" and made.limit == "thoughts":
            made = replace(made, limit="none")
        starts = dialect.calls is not None and dialect.calls.only_at_start
        if made.choice == "required" or (starts and made.choice == "auto"):
            made = replace(made, content=None)  # JSON may be a call there
        if made.choice == "none" and made.limit in ("one call", "budget", "small budget"):
            made = replace(made, limit="none")
        return made


def profiles(dialects):
    """Profiles with each pair of a dialect and another choice, and with all pairs of choices. Those
    of one dialect and its marks follow each other: models take longer than walks."""
    names, seen = [*FACTORS], set[Any]()
    found = {}
    for dialect in dialects:
        wanted = {(dialect, name, value) for name in names for value in FACTORS[name]}
        while wanted - seen:
            row = {}
            for name in names:
                row[name] = max(
                    FACTORS[name],
                    key=lambda value, name=name: sum(
                        pair not in seen for pair in _pairs(dialect, row | {name: value}, name)
                    ),
                )
            for name in names:
                seen.update(_pairs(dialect, row, name))
            found[Profile(dialect, **row).usable] = None
    return sorted(found, key=lambda each: (dialects.index(each.dialect), each.marks))


def _pairs(dialect, row, name):
    yield (dialect, name, row[name])
    for one, other in combinations(row.items(), 2):
        if name in (one[0], other[0]):
            yield (one, other)


@lru_cache(maxsize=4)
def model_of(dialect, marks):
    if dialect in SHAPES:
        return DialectModel(SHAPES[dialect].dialect, SHAPES[dialect].tokens)
    found = DIALECTS[dialect]
    if marks == "added":
        return DialectModel(found, special_tokens(found), special=False)
    return DialectModel(found, mark_texts(found) if marks == "tokens" else ())


class Turns:
    """Walks of one profile."""

    def __init__(self, profile):
        self.profile = profile
        self.model = model_of(profile.dialect, profile.marks)
        self._how = {"choice": profile.choice, "reasoning": profile.reasoning}
        self._content = profile.content and FORMATS[profile.content]
        self._room = 0
        if profile.limit == "one call":
            self._how["max_calls"] = 1
        if profile.limit == "thoughts":
            self._how["reasoning_budget"] = THOUGHTS
        if profile.limit in ("budget", "small budget"):
            self._how["budget"] = self._budget()
        vocabulary, thoughts = self.model.vocabulary, self.model.dialect.reasoning
        self._forecast = JumpForward(vocabulary.encode)
        end = vocabulary.form.marks.encode(thoughts.end) if thoughts else ""
        self._end_of_thoughts = vocabulary.literal_tokens(end)

    def _budget(self):
        """That of the shortest call and a little more, or one that is too small for any call."""
        bodies = {each.name: each.least_tokens or 0 for each in self.model.tools()}
        if self.profile.choice == "auto":
            tokens = self.model.vocabulary.call_tokens
            shortest = min(tokens.shortest_call(n, size, first=True) for n, size in bodies.items())
            return shortest + (20 if self.profile.limit == "budget" else -1)
        asked = Spec(**self._how, keys=tuple(bodies), budget=1)
        with pytest.raises(BudgetTooSmall) as refused:
            check_budget(asked, bodies.__getitem__, self.model.vocabulary, asked_for=1)
        assert refused.value.param == "max_tokens"
        return refused.value.least + (30 if self.profile.limit == "budget" else 0)

    def machine(self, **more):
        return self.model.automaton(self._content, **self._how, **more)

    def turn(self, seed, limit=400):
        """A turn, judged."""
        source = Enforced(self.machine(), self.model.vocabulary.size)
        dice = random.Random(seed)

        def check(allowed):
            for each in (self._rolled_back, self._refused, self._drafted, self._resumed):
                if dice.random() < CHECKED:
                    each(source, allowed, dice)

        ending, planned = EndingChoice(self.model, random.Random(seed)), list[int]()

        def choose(allowed):
            if source.phases[-1:] == ["THINKING"] and not planned and dice.random() < 0.1:
                planned.extend(self._end_of_thoughts)
            if planned and planned[0] in allowed:
                return planned.pop(0)
            planned.clear()
            return ending(allowed)

        whole = walk(source, choose, self._how.get("budget", limit), check)
        made = Turn(self, source, whole)
        made.judge(dice)
        return made

    # --- checks between two steps ---

    def _same(self, machine, allowed):
        assert np.array_equal(mask_of(machine, self.model.vocabulary.size), allowed)

    def _rolled_back(self, source, allowed, dice):
        """Tokens that are accepted and taken back leave no trace."""
        count, following = 0, allowed
        while count < 5 and len(following) and not source.machine.is_terminated():
            assert source.machine.accept_tokens([int(dice.choice(following))])
            count += 1
            if not source.machine.is_terminated():
                following = mask_of(source.machine, self.model.vocabulary.size)
        source.machine.rollback(count)
        self._same(source.machine, allowed)

    def _refused(self, source, allowed, dice):
        """A token that the mask forbids is refused, also as a draft. Of forced text, though, masks
        may have one of several spellings."""
        token = dice.randrange(self.model.vocabulary.size)
        is_special = token in self.model.vocabulary.special
        if token in allowed or (len(allowed) < 3 and not is_special):
            return
        first = int(dice.choice(allowed))
        assert source.machine.validate_tokens([token]) == []
        assert source.machine.validate_tokens([first, -1]) == [first]
        assert not source.machine.accept_tokens([token])
        self._same(source.machine, allowed)

    def _drafted(self, source, allowed, dice):
        """Drafts stay within their limit, are never masked, and keep the state. The masks that are
        planned for a step with drafts are those of its positions."""
        limit = dice.randint(0, 7)
        noise = [int(dice.choice(allowed)), *dice.choices(range(self.model.vocabulary.size), k=3)]
        drafts = self._forecast.drafts(source.machine, dice.choice(([], noise)), limit)
        assert len(drafts) <= limit
        assert source.machine.validate_tokens(drafts) == drafts
        self._same(source.machine, allowed)
        tried = [*drafts, *noise]
        planned = self._forecast.plan(source.machine, tried, limit)
        assert len(planned.rows) == 1 + len(tried)
        assert len(planned.following) <= limit
        for row, token in zip(planned.rows, tried[: planned.valid], strict=False):
            self._same(source.machine, masks.unpack(row.words))
            assert source.machine.accept_tokens([token])
        if not source.machine.is_terminated():
            self._same(source.machine, masks.unpack(planned.rows[planned.valid].words))
        source.machine.rollback(planned.valid)
        self._same(source.machine, allowed)

    def _resumed(self, source, allowed, dice):
        """A sequence that continues from the tokens so far, or accepts them again, has this mask.
        With a budget, those that continue may have begun a call that fits no more."""
        if "budget" in self._how:
            return
        heir = self.machine(accepted=tuple(source.tokens))
        again = self.machine()
        assert again.accept_tokens(source.tokens)
        for _ in range(2):
            self._same(heir, allowed)
            assert heir.accept_tokens([int(dice.choice(allowed))])
            heir.reset()
        self._same(again, allowed)


class Turn:
    def __init__(self, turns, source, whole):
        self._turns, self._profile, self._model = turns, turns.profile, turns.model
        self.tokens, self.phases, self.whole = source.tokens, source.phases, whole
        self.events = self._events()
        self.calls = calls_in(self.events)
        self.content = self._text(ContentDelta)

    def _events(self, splits=()):
        return self._model.segment(
            self.tokens,
            splits,
            "stop" if self.whole else "length",
            reasoning_open=self._profile.reasoning == "open",
            required=self._profile.choice == "required",
        )

    def _text(self, kind):
        return "".join(event.text for event in self.events if isinstance(event, kind))

    def judge(self, dice):
        profile, calls = self._profile, self.calls
        ended = sum(isinstance(event, CallEnd) for event in self.events)
        assert ended in ({len(calls)} if self.whole else {len(calls), len(calls) - 1})
        for name, arguments in calls[:ended]:
            jsonschema.validate(json.loads(arguments), PARAMETERS[name])
        for _ in range(2):
            parts = self._events([dice.randrange(len(self.tokens)) for _ in range(5)])
            assert calls_in(parts) == calls
            assert parts[-1] == self.events[-1]
        if profile.choice == "none":
            assert not calls
        if profile.limit == "one call":
            assert len(calls) <= 1
        self._judge_reasoning()
        self._judge_budget()
        if self.whole:
            self._judge_whole()
            self._judge_cut(dice)

    def _judge_whole(self):
        profile, calls = self._profile, self.calls
        assert self.events[-1] == Finish("tool_calls" if calls else "stop")
        if profile.choice == "required":
            assert calls
            assert not self.content
        if profile.content is not None:
            assert bool(self.content.strip()) != bool(calls)
            if not calls:
                jsonschema.validate(json.loads(self.content), FORMATS[profile.content])
        if calls and profile.choice == "required":
            self._judge_text()

    def _judge_text(self):
        """A reader that shares no code with the segmenter finds the same."""
        found = read_turn(self._model.text(self.tokens), self._model.dialect, PARAMETERS)
        assert found.calls == [(name, json.loads(text)) for name, text in self.calls]
        shape = SHAPES.get(self._profile.dialect)
        if shape is not None and shape.ids:
            assert len({*found.ids}) == len(found.calls)
            assert all(re.fullmatch(shape.ids, each) for each in found.ids)
        if self._profile.dialect.startswith("section"):  # there are five earlier calls
            assert found.ids == [str(5 + number) for number in range(len(found.calls))]

    def _judge_cut(self, dice):
        """A response that is cut has the beginning of its calls, and no whole one more."""
        part = self.tokens[: dice.randrange(1, len(self.tokens))]
        events = self._model.segment(
            part,
            reason="length",
            reasoning_open=self._profile.reasoning == "open",
            required=self._profile.choice == "required",
        )
        made, codec = calls_in(events), self._model.vocabulary.form.codec
        ended = sum(isinstance(event, CallEnd) for event in events)
        assert made[:ended] == self.calls[:ended]
        for (name, text), (whole_name, whole_text) in zip(made, self.calls, strict=False):
            assert name == whole_name
            # A cut value in raw text may be the beginning of another type.
            assert whole_text.startswith(text) or not isinstance(codec, Json)

    def _judge_reasoning(self):
        thoughts = self._model.dialect.reasoning
        text = self._model.text(self.tokens)
        if self._profile.reasoning == "closed":
            assert not self._text(ReasoningDelta)
        if self._profile.reasoning == "must" and thoughts is not None:
            assert thoughts.begin.startswith(text) or text.startswith(thoughts.begin)
        if self._profile.limit == "thoughts" and thoughts is not None:
            around = len(
                thoughts.begin + thoughts.end + thoughts.after
            )  # also in single characters
            assert self.phases.count("THINKING") <= THOUGHTS + around + 1

    def _judge_budget(self):
        """A required call begins in time. A call that exceeds the budget does not begin."""
        if self._profile.limit not in ("budget", "small budget"):
            return
        if self._profile.choice == "required":
            assert self.calls or {"TOOL_CALL", "SELECT"} & {*self.phases}
        elif self._profile.limit == "small budget":
            assert "TOOL_CALL" not in self.phases
