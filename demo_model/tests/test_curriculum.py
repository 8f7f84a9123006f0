"""Stages come one after another, and what was learned in one is kept up in those after it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import numpy as np
import pytest
from tokenizers import Tokenizer

from byte_tokenizer import word_tokenizer
from trainer import corpus
from trainer.batches import Batch
from trainer.curriculum import (
    COPY_STEPS,
    FIND_EVERY,
    FIND_EVERY_SHORT,
    FIND_STEPS,
    SHORT_STEPS,
    Curriculum,
    Stage,
)

TOKENS = 2048
SAID = 65
"""The byte that the conversations here are made of, and nothing else."""


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return word_tokenizer()


def conversations(_: bool) -> list[corpus.Sample]:
    return [corpus.Sample(np.full(90, SAID, np.uint16), np.ones(90, bool)) for _ in range(2000)]


@pytest.fixture
def curriculum(tokenizer: Tokenizer) -> Curriculum:
    return Curriculum(tokenizer, conversations, seed=1, steps=1000, tokens=TOKENS)


def stages(curriculum: Curriculum, losses: Iterator[float], steps: int) -> list[tuple[int, Stage]]:
    """The steps at which a stage began."""
    begun: list[tuple[int, Stage]] = []
    for step in range(steps):
        if not begun or begun[-1][1] != curriculum.stage(step):
            begun.append((step, curriculum.stage(step)))
        curriculum.note(step, next(losses))
    return begun


def test_a_stage_ends_when_it_is_learned(curriculum: Curriculum) -> None:
    begun = stages(curriculum, iter(lambda: 0.1, None), 2000)
    assert [stage for _, stage in begun] == list(Stage)
    (_, finding, short, all_of_them) = (step for step, _ in begun)
    assert finding < COPY_STEPS
    assert short < finding + FIND_STEPS
    assert all_of_them == short + SHORT_STEPS * 1000


def test_a_stage_that_is_not_learned_ends_all_the_same(curriculum: Curriculum) -> None:
    begun = stages(curriculum, iter(lambda: 9.0, None), COPY_STEPS + FIND_STEPS + 200)
    ends = (0, COPY_STEPS, COPY_STEPS + FIND_STEPS, COPY_STEPS + FIND_STEPS + SHORT_STEPS * 1000)
    assert begun == list(zip(ends, Stage, strict=True))


def test_with_weights_to_begin_with_all_conversations_come_at_once(tokenizer: Tokenizer) -> None:
    given = Curriculum(tokenizer, conversations, seed=1, steps=1000, tokens=TOKENS, begun=True)
    assert stages(given, iter(lambda: 9.0, None), 1000) == [(0, Stage.ALL)]


def test_it_goes_on_from_its_state(tokenizer: Tokenizer, curriculum: Curriculum) -> None:
    for step in range(400):
        curriculum.note(step, 0.1)
    again = Curriculum(tokenizer, conversations, seed=1, steps=1000, tokens=TOKENS)
    again.load(curriculum.state())
    assert [again.stage(step) for step in range(1000)] == [
        curriculum.stage(step) for step in range(1000)
    ]


@pytest.mark.parametrize(
    ("stage", "every"), [(Stage.SHORT, FIND_EVERY_SHORT), (Stage.ALL, FIND_EVERY)]
)
def test_finding_comes_between_conversations(
    curriculum: Curriculum, stage: Stage, every: int
) -> None:
    found = [_is_drill(batch) for batch in islice(curriculum.batches(stage, 0), 2 * (every + 1))]
    assert found == 2 * [*(False for _ in range(every)), True]


def _is_drill(batch: Batch) -> bool:
    return len(set(batch[0].flatten().tolist()) - {0, SAID}) > 0
