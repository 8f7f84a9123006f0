"""The least numbers of tokens of real tools, beside the shortest calls that walks through their
masks find."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Any

import numpy as np
import pytest

from tests.support.dialects.model import DialectModel
from tests.support.effort import repeats
from tests.support.schemas.suites import SCHEMAS, real_tools
from toolgate_backend.grammars.engines.engine import Matcher
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.masks import words_per_row
from toolgate_core.dialects.mark_texts import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.walk import schema_objects

ENDS = ('"', "]", "}", '""', "[]", "{}", "0", "1", "null", "true", ", ")
WALKS, LIMIT = 12, 400


class Walker:
    """Takes short ways through the masks of one tool: texts that end something, then the names of
    required members and listed values, and else random tokens."""

    def __init__(self, model: DialectModel, parameters: dict[str, Any]) -> None:
        self._model = model
        self._grammar = model.grammar("tool", parameters)
        nodes = [*schema_objects(parameters)]
        names = [name for node in nodes for name in node.get("required", ())]
        listed = [v for node in nodes for v in node.get("enum", [node.get("const")])]
        self._names = [f'"{name}": ' for name in names]
        self._values = [json.dumps(value, ensure_ascii=False) for value in listed]
        self.least = self._grammar.least_tokens

    def shortest(self) -> int | None:
        found = (self._walk(random.Random(seed)) for seed in range(WALKS))
        return min((each for each in found if each is not None), default=None)

    def _walk(self, rng: random.Random) -> int | None:
        matcher, tokens = self._grammar.matcher(), list[int]()
        names = rng.sample(self._names, len(self._names))
        while not matcher.finished:
            if len(tokens) > LIMIT:
                return None
            row = np.empty(words_per_row(self._model.vocabulary.size), dtype=np.int32)
            matcher.fill(row)
            allowed = masks.unpack(row & self._model.data.in_grammars)
            texts = [*self._texts(rng, names)] if len(allowed) > 1 else []
            spelled = next(filter(None, (self._spelled(matcher, each) for each in texts)), None)
            if spelled is None:
                tried = [int(each) for each in rng.choices(allowed.tolist(), k=4)]
                spelled = [max(tried, key=lambda each: len(self._model.data.token_bytes[each]))]
                assert matcher.accept(spelled[0])
            tokens += spelled
        text = b"".join(self._model.data.unit_bytes[each] for each in tokens)
        fewest = self._model.data.token_index.fewest(text) or tokens
        again = self._grammar.matcher()
        return len(fewest if all(map(again.accept, fewest)) else tokens)

    def _texts(self, rng: random.Random, names: Sequence[str]) -> Iterator[str]:
        yield from ENDS[:3]
        yield from names
        yield from rng.sample(self._values, len(self._values))
        yield from ENDS[3:]

    def _spelled(self, matcher: Matcher, text: str) -> list[int] | None:
        """The tokens of a text, which the matcher has accepted; None if it does not."""
        taken: list[int] = []
        rest = text.encode()
        while rest:
            tokens = reversed(self._model.data.token_index.prefixes_of(rest))
            token = next((each for each in tokens if matcher.accept(each)), None)
            if token is None:
                if taken:
                    matcher.rollback(len(taken))
                return None
            taken.append(token)
            rest = rest[len(self._model.data.token_bytes[token]) :]
        return taken


@pytest.mark.slow
@pytest.mark.skipif(not SCHEMAS.exists(), reason="needs the schemas of real tools")
def test_no_number_is_above_the_shortest_call_that_walks_find() -> None:
    model = DialectModel(DIALECTS["qwen3"], mark_texts(DIALECTS["qwen3"]))
    ratios: list[float] = []
    for tool in real_tools(step=8 * repeats(4, nightly=1)):
        walker = Walker(model, tool["parameters"])
        shortest = walker.shortest()
        if shortest is not None and walker.least is not None:
            assert walker.least <= shortest, tool["parameters"]
            ratios.append(shortest / walker.least)
    assert len(ratios) > 15
    assert 1 <= median(ratios) <= 1.05
