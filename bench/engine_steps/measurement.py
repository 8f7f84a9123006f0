"""Blocks of engine steps of one kind, in a steady state."""

from __future__ import annotations

import time
from typing import Any, Protocol

from .blocks import RAMP_STEPS, SETTLING_STEPS, Block, Kind, Step, block_of
from .channel import Channel
from .clocks import CpuTimes
from .executor import Response
from .load import Load

FINISHED = ("STOP", "LENGTH")


class WrongResponse(AssertionError):
    """A response is not the one that the model was to write. A mask may have forbidden a token."""


class Model(Protocol):
    """Writes prepared responses."""

    def serve(self, kind: Kind) -> None:
        """Expect requests of this kind only. Called while the engine has no requests."""

    def begin(self, request: str, response: Response) -> None:
        """Write this response to the request. Called before the engine gets the request."""


class Engine:
    """The engine's loop, with a number of streams that each send the next request at once."""

    def __init__(self, core: Any, model: Model, channel: Channel, times: CpuTimes) -> None:
        self._core, self._model, self._channel, self._times = core, model, channel, times
        self._written: dict[str, tuple[Response, list[int]]] = {}
        """By request: what is to be written, and what was."""
        scheduler = core.scheduler
        times.watch(scheduler, "schedule", "schedule")
        times.watch(scheduler, "get_grammar_bitmask", "bitmask")
        times.watch(scheduler, "update_from_output", "update")

    def block(self, load: Load, kind: Kind, streams: int, steps: int, *, settle: bool) -> Block:
        """With `settle`, the first steps are not measured."""
        self._model.serve(kind)
        skipped = RAMP_STEPS + SETTLING_STEPS if settle else 0
        done: list[Step] = []
        unsent = streams
        process = time.process_time_ns()
        while len(done) < skipped + steps:
            for _ in range(min(unsent, -(-streams // RAMP_STEPS))):
                self._send(load, kind)
                unsent -= 1
            step = self._step(load, kind)
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

    def _send(self, load: Load, kind: Kind) -> None:
        request, response = load.next(kind)
        self._model.begin(request.request_id, response)
        self._written[request.request_id] = response, []
        self._channel.send(request)

    def _step(self, load: Load, kind: Kind) -> Step | None:
        """None if there was nothing to compute."""
        self._channel.admit()
        outputs, computed = self._core.step_fn()
        ended, tokens, sequences = time.perf_counter(), 0, 0
        spent = self._times.take()
        self._channel.deliver(outputs or {})
        for each in (outputs or {}).values():
            for output in each.outputs:
                tokens += len(output.new_token_ids)
                sequences += bool(output.new_token_ids)
                self._written[output.request_id][1].extend(output.new_token_ids)
                if output.finish_reason is not None:
                    self._finish(output)
                    self._send(load, kind)
        return Step(tokens, sequences, spent, ended) if computed else None

    def _finish(self, output: Any) -> None:
        request, reason = output.request_id, output.finish_reason.name
        if reason not in FINISHED:
            raise RuntimeError(f"request {request} ended with {reason}")
        response, written = self._written.pop(request)
        for at, (token, wanted) in enumerate(zip(written, response.tokens, strict=False), 1):
            if token != wanted:
                raise WrongResponse(f"token {at} of {request} is {token} instead of {wanted}")
        if len(written) != len(response.tokens):
            raise WrongResponse(
                f"{request} has {len(written)} tokens instead of {len(response.tokens)}"
            )

    def _abort(self) -> None:
        self._channel.admit(wait=True)
        self._core.abort_requests([*self._core.scheduler.requests])
        while self._core.scheduler.has_requests() or self._core.batch_queue:
            self._core.step_fn()
        self._times.take()
        self._written.clear()
