"""Blocks of engine steps of one kind, in a steady state."""

from __future__ import annotations

import time
from typing import Any

from .channel import Channel
from .cpu_times import CpuTimes
from .load import Load
from .options import RAMP_STEPS, SETTLING_STEPS, Kind
from .results import Block, Step, block_of

FINISHED = ("STOP", "LENGTH")


class Engine:
    """The engine's loop, with a number of streams that each send the next request at once."""

    def __init__(self, core: Any, load: Load, channel: Channel, times: CpuTimes) -> None:
        self._core, self._load, self._channel, self._times = core, load, channel, times
        scheduler = core.scheduler
        times.watch(scheduler, "schedule", "schedule")
        times.watch(scheduler, "get_grammar_bitmask", "bitmask")
        times.watch(scheduler, "update_from_output", "update")
        self._parallel_above = core.structured_output_manager.fill_bitmask_parallel_threshold

    def block(self, kind: Kind, streams: int, steps: int, *, settle: bool) -> Block:
        """With `settle`, the first steps are not measured."""
        # The adapter structured_output raises it for good.
        manager = self._core.structured_output_manager
        manager.fill_bitmask_parallel_threshold = self._parallel_above
        self._core.model_executor.serve(kind)
        skipped = RAMP_STEPS + SETTLING_STEPS if settle else 0
        done: list[Step] = []
        unsent = streams
        process = time.process_time_ns()
        while len(done) < skipped + steps:
            for _ in range(min(unsent, -(-streams // RAMP_STEPS))):
                self._send(kind)
                unsent -= 1
            step = self._step(kind)
            if step is None:
                # Nothing but grammars that are being compiled.
                time.sleep(0.0005)
                continue
            done.append(step)
            if len(done) == skipped:
                process = time.process_time_ns()
        process = time.process_time_ns() - process
        self._abort()
        return block_of(done[skipped:], process)

    def _send(self, kind: Kind) -> None:
        request, response = self._load.next(kind)
        self._core.model_executor.begin(request.request_id, response)
        self._channel.send(request)

    def _step(self, kind: Kind) -> Step | None:
        """None if there was nothing to compute."""
        self._channel.admit()
        outputs, computed = self._core.step_fn()
        ended, tokens = time.perf_counter(), 0
        spent = self._times.take()
        self._channel.deliver(outputs or {})
        for each in (outputs or {}).values():
            for output in each.outputs:
                tokens += len(output.new_token_ids)
                if output.finish_reason is not None:
                    if output.finish_reason.name not in FINISHED:
                        reason = output.finish_reason.name
                        raise RuntimeError(f"request {output.request_id} ended with {reason}")
                    self._send(kind)
        return Step(tokens, spent, ended) if computed else None

    def _abort(self) -> None:
        self._channel.admit(wait=True)
        self._core.abort_requests([*self._core.scheduler.requests])
        while self._core.scheduler.has_requests() or self._core.batch_queue:
            self._core.step_fn()
        self._times.take()
