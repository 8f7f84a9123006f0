"""vLLM's real engine and model runners on a CPU, with a model that writes prepared calls.

The V2 model runner, which servers with a GPU use, runs with asynchronous scheduling, its rejection
sampler and its kernels, which Triton interprets. Each engine has a process of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from bench.engine_steps.blocks import Kind
from bench.engine_steps.process import in_new_process, write
from bench.gpu_engine.engines import DEFAULT, DRAFTS, ENGINES, BlockOfRequests
from tests.models import tiny_model
from tests.support.installed import needs
from tests.support.shared_data import BFCL

STREAMS, STEPS = 4, 120
FLAGS = ("--max-model-len", "768", "--block-size", "32", "--num-gpu-blocks-override", "26")
"""Prompts share 16 blocks, and 4 calls need more than the others, so that some are preempted."""
ABORT_EVERY, COMPARED_EVERY = 9, 5
NAMES = [name for name in ENGINES if name != DEFAULT]

pytestmark = [pytest.mark.vllm, pytest.mark.slow, needs(BFCL)]


def run(name: str, responses: Sequence[Sequence[int]]) -> Counter[str]:
    """Write the responses with an engine, and abort a request now and then. Raises WrongResponse if
    a response that was not aborted has other tokens, and AssertionError if the masks from a table
    are not those of a bitmask."""
    setup = ENGINES[name]
    if setup.on_v2:
        from bench.support import v2_on_cpu

        v2_on_cpu.install()
    from bench.engine_steps.measurement import Engine
    from bench.gpu_engine.engine_process import EngineOptions, MeasuredEngine, set_environment

    counts: Counter[str] = Counter()

    class Aborting(Engine):
        """Notes what the scheduler does, and aborts requests."""

        def __init__(self, core: Any, *others: Any) -> None:
            schedule = core.scheduler.schedule

            def noting(*arguments: Any, **options: Any) -> Any:
                scheduled = schedule(*arguments, **options)
                counts["steps"] += 1
                counts["preempted"] += len(scheduled.preempted_req_ids or ())
                counts["drafts"] += sum(map(len, scheduled.scheduled_spec_decode_tokens.values()))
                return scheduled

            core.scheduler.schedule = noting
            super().__init__(core, *others)

        def _step(self, load: Any, kind: Kind) -> Any:
            step = super()._step(load, kind)
            counts["tokens"] += step.tokens if step else 0
            if counts["steps"] % ABORT_EVERY == 0:
                request = [*self._written][-1]  # the newest, so that others end
                self._channel.admit(wait=True)
                self._core.abort_requests([request])
                del self._written[request]
                counts["aborted"] += 1
                self._send(load, kind)
            return step

        def _finish(self, output: Any) -> None:
            super()._finish(output)
            counts["finished"] += 1

    set_environment(setup)
    original = _use_tables_of_gpus() if setup.on_v2 else None
    measured = MeasuredEngine(setup, EngineOptions(str(tiny_model()), FLAGS, STREAMS, STEPS))
    if not setup.processor:
        _compare(measured._runner.structured_outputs_worker, original, counts)
    measured.take({"natural": responses}, Aborting)
    measured.block(BlockOfRequests(name, setup.kinds[-1], STREAMS, "natural", 0))
    return counts


def _use_tables_of_gpus() -> Any:
    """With few slots, so that they begin anew now and then. Returns vLLM's own function."""
    from vllm.v1.worker.gpu.structured_outputs import StructuredOutputsWorker

    from toolgate_backend.adapters import logits_processor, mask_worker
    from toolgate_backend.adapters.device_masks import DeviceMasks

    slots = STREAMS * (1 + DRAFTS)
    for module in (mask_worker, logits_processor):
        module.slots_of = lambda _config: slots
        module.make_table = lambda device, size, *, forces, slots, **_others: DeviceMasks(
            device, size, forces=forces, slots=slots
        )
    return StructuredOutputsWorker.apply_grammar_bitmask


def _compare(worker: Any, original: Any, counts: Counter[str]) -> None:
    """Compare the logits with those of vLLM's own function and a bitmask, in each step that changes
    a table and in some others. Triton's interpreter is slow."""
    from tests.support.bitmasks import as_bitmask, positions_of
    from toolgate_backend.adapters.row_numbers import NumberedRows, RowNumbers

    number, hooked, rows = RowNumbers.number, worker.apply_grammar_bitmask, list[Any]()

    def noting(self: Any, numbered: Any) -> Any:
        rows[:] = numbered
        return number(self, numbered)

    def compared(logits: Any, batch: Any, requests: Any, sent: Any) -> None:
        expected = logits.clone()
        hooked(logits, batch, requests, sent)
        if not isinstance(sent, NumberedRows):
            return
        counts["numbered"] += 1
        counts["tables"] += sent.first == 0 and len(sent.new) > 0
        if len(sent.new) or counts["numbered"] % COMPARED_EVERY == 0:
            masks = as_bitmask(rows, positions_of(requests, batch), worker.mask_stride)
            original(worker, expected, batch, requests, masks)
            assert logits.equal(expected)

    RowNumbers.number, worker.apply_grammar_bitmask = noting, compared


def calls() -> list[list[int]]:
    return in_new_process(write, str(tiny_model()), "natural", 40)


@pytest.mark.parametrize("name", NAMES)
def test_calls_are_complete_with_preemption_and_aborts(name):
    counts = in_new_process(run, name, calls())
    assert counts["finished"]
    assert counts["preempted"]
    assert counts["aborted"]
    assert bool(counts["drafts"]) == ("drafts" in name)
    if "logits_processor" not in name:
        assert counts["numbered"] > counts["tables"] > 1


@pytest.mark.parametrize("name", NAMES)
def test_the_runner_writes_no_token_that_a_mask_forbids(name):
    """A token in the middle of each response is replaced by a mark, which the model prefers by
    far."""
    responses = [[*call[:30], call[0], *call[31:]] for call in calls()]
    with pytest.raises(AssertionError, match=rf"token 31 of {ENGINES[name].kinds[-1]}-\d+ is"):
        in_new_process(run, name, responses)
