"""A model without weights: it follows a plausible response, a draft, or nothing at all."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.long.scheduler.oracle import Oracle, Profile
from toolgate_backend.tokens.vocabulary import Vocabulary

CALLS = (
    '{"name": "get_weather", "arguments": {"city": "Oslo", "unit": "celsius"}}',
    '{"name": "return_json", "arguments": {"answer": "none", "confidence": 0.5}}',
    '{"name": "set_tags", "arguments": {"tags": ["a", "b", "c"]}}',
    '{"name": "set_range", "arguments": {"low": 3, "steps": [true, false], "note": null}}',
    '{"name": "set_headers", "arguments": {"headers": {"a": "b"}, "code": "AB-123"}}',
)
ENDING = frozenset(b'"}],<>/\n')


class FakeModel:
    def __init__(
        self, vocabulary: Vocabulary, oracle: Oracle, profile: Profile, rng: random.Random
    ) -> None:
        self.vocabulary = vocabulary
        self._oracle, self._profile, self._rng = oracle, profile, rng
        marks = vocabulary.marks.tokens
        self._marks = [*marks.values(), *vocabulary.marks.end_of_turn]
        end = vocabulary.marks.end_of_turn[0]
        self._scripts: list[list[int]] = []
        for first in CALLS:
            script = [*vocabulary.encode("Let me see.\n"), marks["</think>"]]
            script += vocabulary.encode("\n\n")
            for call in (first, CALLS[0]):
                script += [marks["<tool_call>"], *vocabulary.encode(f"\n{call}\n")]
                script += [marks["</tool_call>"], *vocabulary.encode("\n")]
            self._scripts.append([*script[:-1], end])
        texts = vocabulary.token_bytes
        self._ending = np.array([bool(text) and set(text) <= ENDING for text in texts])
        self._ending[self._marks] = True

    def sample(
        self, request: str, output: list[int], drafts: list[int], logits: npt.NDArray[Any]
    ) -> list[int]:
        """Choose a token at each position until a draft is rejected; the chosen ones, marked as the
        best in `logits`."""
        chosen: list[int] = []
        for position in range(len(drafts) + 1):
            before = output + chosen
            allowed = np.isfinite(logits[position])
            self._oracle.check(request, before, allowed)
            draft = drafts[position] if position < len(drafts) else None
            token = self._choose(before, draft, allowed)
            logits[position, token] = 1000.0
            chosen.append(token)
            if token != draft:
                break
        return chosen

    def _choose(
        self, output: Sequence[int], draft: int | None, allowed: npt.NDArray[np.bool_]
    ) -> int:
        rng = self._rng
        if (
            draft is not None
            and draft >= 0
            and allowed[draft]
            and rng.random() < self._profile.agreement
        ):
            return draft
        if rng.random() < 0.7:
            following = self._follow(output, 1)
            if following and allowed[following[0]]:
                return following[0]
        ids = np.flatnonzero(allowed)
        ending = ids[self._ending[ids]]
        pool = ending if len(ending) and rng.random() < 0.6 else ids
        return int(pool[rng.randrange(len(pool))])

    def _follow(self, output: Sequence[int], count: int) -> list[int]:
        """The tokens that follow the last one or two tokens of the output in a script."""
        script = self._scripts[self._rng.randrange(len(self._scripts))]
        last = tuple(output[-2:])
        for length in (2, 1):
            tail = list(last[-length:])
            for at in range(len(script) - length):
                if tail and script[at : at + length] == tail:
                    return script[at + length : at + length + count]
        return script[:count]

    def draft(self, request: str, output: list[int], profile: Profile) -> list[int]:
        """As many tokens as the shape of drafts has. Some are wrong on purpose: random tokens,
        marks of calls and of the end of the turn, padding."""
        rng = self._rng
        count = profile.drafts
        if profile.shape == "suffix":
            count = rng.randint(0, count)
        kind = rng.random()
        if kind < 0.15:
            tokens = [rng.randrange(self.vocabulary.size) for _ in range(count)]
        elif kind < 0.3:
            tokens = [rng.choice(self._marks) for _ in range(count)]
        else:
            tokens = self._follow(output, count)
            if tokens and rng.random() < 0.3:
                tokens[rng.randrange(len(tokens))] = rng.choice(self._marks)
        if profile.shape == "ngram" and rng.random() < 0.3:
            tokens = tokens[: rng.randint(0, len(tokens))]
        if profile.shape in ("mtp", "eagle"):  # a model always drafts all of them
            tokens += [rng.randrange(self.vocabulary.size) for _ in range(count - len(tokens))]
        return tokens
