"""Random walks over the enforcement of calls of custom tools, read by the segmenter."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import numpy as np

from tests.support.dialects.model import DialectModel
from tests.support.grammars.custom_grammars import Case
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.tokens import masks
from toolgate_core.custom_tools import CustomCalls
from toolgate_core.deltas import CallEnd, CallStart, InputDelta
from toolgate_core.dialects.codecs import Json, Pythonic

LIMIT = 260
"""Maximum number of tokens of a walk."""


class CustomWalks:
    """Walks over the calls of one custom tool in one dialect."""

    def __init__(self, model: DialectModel, case: Case) -> None:
        self._model = model
        self._case = case
        codec = model.vocabulary.form.codec
        self._quoted = isinstance(codec, Json | Pythonic)
        self._hints = [self._tokens(text) for text in case.hints]
        self._ends = [self._tokens(text) for text in case.ends]
        self._closers = model.closers
        if isinstance(codec, Json):
            self._closers = [[*model.vocabulary.encode('"}')]]

    def _tokens(self, text: str) -> Sequence[int]:
        written = json.dumps(text, ensure_ascii=False)[1:-1] if self._quoted else text
        return self._model.vocabulary.encode(written)

    def inputs(self, seed: int) -> list[str] | None:
        """The inputs of the calls of one turn, as a client gets them; None if the turn did not end
        within `LIMIT` tokens."""
        machine = self._model.automaton(choice="required", max_calls=1)
        tokens = self._walk(machine, random.Random(seed))
        if tokens is None:
            return None
        dice = random.Random(seed + 1)
        splits = sorted(dice.randrange(len(tokens)) for _ in range(4))
        events = self._model.segment(tokens, splits, required=True)
        found: list[list[str]] = []
        ended = 0
        for event in CustomCalls([self._case.name]).converted(events):
            match event:
                case CallStart(custom=True):
                    found.append([])
                case InputDelta(_, text):
                    found[-1].append(text)
                case CallEnd():
                    ended += 1
        assert ended == len(found)
        return ["".join(parts) for parts in found]

    def _walk(self, machine: Automaton, dice: random.Random) -> list[int] | None:
        tokens: list[int] = []
        patience = dice.randrange(5, 120)
        planned: list[int] = []
        row = np.zeros((self._model.vocabulary.size + 31) // 32, dtype=np.int32)
        for count in range(LIMIT):
            machine.fill_bitmask(row)
            allowed = masks.unpack(row)
            assert len(allowed), f"no token is allowed after {self._model.text(tokens)!r}"
            ending = count > patience
            if not planned and len(allowed) > 1:
                planned = self._plan(allowed, dice, ending)
            if planned and _has(row, planned[0]):
                token = planned.pop(0)
            else:
                planned = []
                liked = allowed[self._model.liked[allowed]]
                use_liked = len(liked) and (ending or dice.random() < 0.3)
                token = int(dice.choice(liked if use_liked else allowed))
            assert machine.accept_tokens([token]), "a token of the mask is refused"
            tokens.append(token)
            if machine.is_terminated():
                return tokens
        return None

    def _plan(self, allowed: masks.TokenIds, dice: random.Random, ending: bool) -> list[int]:
        """Tokens of a text that can begin here."""
        if ending:
            closers = [each for each in self._closers if each and each[0] in allowed]
            if closers and dice.random() < 0.6:
                return [*dice.choice(closers)]
        texts = self._ends if ending and self._ends else self._hints
        fitting = [each for each in texts if each and each[0] in allowed]
        chance = 0.8 if ending else 0.3
        return [*dice.choice(fitting)] if fitting and dice.random() < chance else []


def _has(row: masks.BitmaskRow, token: int) -> bool:
    return bool(row.view(np.uint32)[token >> 5] >> (token & 31) & 1)
