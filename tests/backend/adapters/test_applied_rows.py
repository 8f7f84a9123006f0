"""Numbered rows in vLLM's own functions of both model runners: the logits are those of a bitmask.

Each runs in a process of its own, in which Triton interprets the kernels, vLLM's and ours."""

from __future__ import annotations

import inspect
import pickle
import random
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from bench.engine_steps.process import in_new_process
from tests.support.effort import repeats

VOCABULARY, MOST_DRAFTS, MOST_REQUESTS, WORKERS = 100, 3, 6, 2
SLOTS = MOST_REQUESTS * (1 + MOST_DRAFTS)
BITMASKS = 0.1
"""Share of the steps with bitmasks, as those with a grammar of vLLM's are."""
Step = tuple[list[str], dict[str, list[int]], list[str], list[Any]]
"""The batch, the drafts of its requests, those with masks, in another order, and their rows."""


def steps(rng: random.Random, count: int) -> Iterator[Step]:
    """More rows than a table has slots."""
    from toolgate_backend.tokens import masks

    rows = masks.Rows()
    some = [rng.sample(range(VOCABULARY), rng.randint(1, VOCABULARY)) for _ in range(2 * SLOTS)]
    made = [rows.row(masks.pack(masks.token_ids(each), VOCABULARY)) for each in some]
    for number in range(count):
        batch = rng.sample("abcdefgh", rng.randint(1, MOST_REQUESTS))
        drafts = {each: [-1] * rng.randint(1, MOST_DRAFTS) for each in batch if number % 3}
        drafts = {each: some for each, some in drafts.items() if rng.random() < 0.6}
        masked = rng.sample(batch, rng.randint(1, len(batch)))
        positions = sum(1 + len(drafts.get(each, ())) for each in masked)
        yield batch, drafts, masked, rng.choices(made[number % SLOTS :], k=positions)


def check(original: Any, hooked: list[Any], call: Callable[..., None], count: int) -> None:
    """Raises AssertionError unless all workers have the logits of vLLM's function in each step."""
    import torch

    from tests.support.bitmasks import as_bitmask
    from toolgate_backend.adapters.row_numbers import RowNumbers

    rng, numbers = random.Random(5), RowNumbers(SLOTS)
    for batch, drafts, masked, rows in steps(rng, count):
        logits = torch.rand(sum(1 + len(drafts.get(each, ())) for each in batch), VOCABULARY)
        positions = [1 + len(drafts.get(each, ())) for each in masked]
        bitmask = as_bitmask(rows, positions, 1 + MOST_DRAFTS)
        call(original, batch, drafts, masked, expected := logits.clone(), bitmask)
        sent = pickle.dumps(bitmask if rng.random() < BITMASKS else numbers.number(rows))
        for worker in hooked:
            call(worker, batch, drafts, masked, found := logits.clone(), pickle.loads(sent))
            assert found.equal(expected)


def on_v1(count: int) -> None:
    import torch
    from vllm.v1.core.sched.output import GrammarOutput
    from vllm.v1.worker import gpu_model_runner

    from toolgate_backend.adapters import mask_worker
    from toolgate_backend.adapters.apply_masks import make_table

    original = gpu_model_runner.apply_grammar_bitmask

    def hooked() -> Any:
        module = SimpleNamespace(apply_grammar_bitmask=original)
        table = make_table(torch.device("cpu"), VOCABULARY, forces=False)
        mask_worker.hook(module, mask_worker.read_v1, table)
        return module.apply_grammar_bitmask

    def call(function: Any, batch: Any, drafts: Any, masked: Any, logits: Any, sent: Any) -> None:
        scheduled = SimpleNamespace(scheduled_spec_decode_tokens=drafts)
        function(scheduled, GrammarOutput(masked, sent), SimpleNamespace(req_ids=batch), logits)

    check(original, [hooked() for _ in range(WORKERS)], call, count)


def on_v2(count: int) -> None:
    from bench.support import v2_on_cpu

    v2_on_cpu.install()
    import numpy as np
    import torch
    import vllm.v1.worker.cpu.shm  # noqa: F401  # placeholders for CUDA's streams
    from vllm.v1.worker.gpu.structured_outputs import StructuredOutputsWorker

    from toolgate_backend.adapters import mask_worker
    from toolgate_backend.adapters.device_masks import DeviceMasks
    from toolgate_backend.adapters.private_names import ROWS_V2
    from toolgate_core.host_probe import find_problems

    assert [*find_problems([ROWS_V2])] == []
    device, stride = torch.device("cpu"), 1 + MOST_DRAFTS

    bonus = {"num_bonus_tokens": 1}
    known = inspect.signature(StructuredOutputsWorker).parameters
    others = {name: value for name, value in bonus.items() if name in known}  # up to 0.32

    def made(kind: Any) -> Any:
        return kind(SLOTS, VOCABULARY, device, stride, **others).apply_grammar_bitmask

    def hooked() -> Any:
        kind = type("Hooked", (StructuredOutputsWorker,), {})
        table = DeviceMasks(device, VOCABULARY, forces=False, slots=SLOTS)
        mask_worker.hook(kind, mask_worker.read_v2, table)
        return made(kind)

    def call(function: Any, batch: Any, drafts: Any, masked: Any, logits: Any, sent: Any) -> None:
        counts = np.array([len(drafts.get(each, ())) for each in batch], np.int32)
        ends = np.concatenate(([0], np.cumsum(counts + 1))).astype(np.int32)
        described = SimpleNamespace(
            req_ids=batch,
            num_draft_tokens_per_req=counts,
            cu_num_logits_np=ends,
            cu_num_logits=torch.from_numpy(ends),
        )
        function(logits, described, masked, sent)

    check(made(StructuredOutputsWorker), [hooked() for _ in range(WORKERS)], call, count)


@pytest.mark.parametrize(("runner", "count"), [(on_v1, 200), (on_v2, 60)])
def test_the_logits_are_those_of_a_bitmask(runner, count):
    in_new_process(runner, repeats(count, nightly=10 * count))
