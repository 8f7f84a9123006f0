"""Steps with automata, on the CPU."""

from __future__ import annotations

import pytest
import torch

from bench.micro.gpu_steps import Batch, cells, measure
from tests.support.dialects.model import DialectModel
from toolgate_core.dialects.registry import DIALECTS

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@pytest.fixture
def batch() -> Batch:
    model = DialectModel(DIALECTS["qwen3"])
    grammars = [model.grammar("f", SCHEMA)]
    return Batch(model.vocabulary, grammars, 3, torch.device("cpu"))


def test_sampled_tokens_are_accepted_and_responses_end(batch: Batch) -> None:
    torch.manual_seed(1)
    for _ in range(120):
        batch.step(lambda: None, enforced=True)
    assert batch.tokens == 3 * 119
    assert batch.responses > 1
    assert len(batch.masks) == len(batch.apply) == 120


def test_a_token_that_an_automaton_refuses_is_an_error(batch: Batch) -> None:
    batch.step(lambda: None, enforced=False)
    batch._sampled = [0, 0, 0]
    with pytest.raises(RuntimeError, match="row 0 refuses"):
        batch.step(lambda: None, enforced=True)


def test_blocks_alternate(batch: Batch) -> None:
    free, enforced = measure(batch, lambda: None, 2)
    assert len(free) == len(enforced) == 2
    assert len(cells(batch, free, enforced)) == 7
