"""The tokens of sequences on vLLM's V2 model runner, which keeps them on the device."""

from __future__ import annotations

from typing import Any

import torch


class TokenHistory:
    """The last tokens of all sequences are copied to the host before each forward pass, so that
    whoever needs them waits for the step before, not for this one."""

    def __init__(self, states: Any, most: int) -> None:
        """`states`: vLLM's LogitsProcRequestState. `most`: tokens of a sequence in a step."""
        lengths = states.total_len.gpu
        self._states, self._last = states, torch.arange(-most, 0, device=lengths.device)
        self._copied = torch.cuda.Event() if lengths.is_cuda else None
        self._copy: torch.Tensor | None = None
        self._tokens: Any = None

    def begin_step(self, *, expected: bool) -> None:
        """`expected`: whether tokens will be needed. Otherwise they are copied when they are."""
        self._tokens, self._copy = None, self._queue_copy() if expected else None

    def _queue_copy(self) -> torch.Tensor:
        """What is there when the steps before are done: the last tokens, and their number."""
        written, lengths = self._states.all_token_ids.gpu, self._states.total_len.gpu[:, None]
        last = written.gather(1, (lengths + self._last).clamp_(0, written.shape[1] - 1))
        copy = torch.cat((last, lengths), 1).to("cpu", non_blocking=self._copied is not None)
        if self._copied is not None:
            self._copied.record()
        return copy

    def update(self, output: list[int], slot: int, prompt: int) -> None:
        """Make `output` that of the sequence in a slot, after a prompt of this length."""
        if self._tokens is None:
            copy = self._queue_copy() if self._copy is None else self._copy
            if self._copied is not None:
                self._copied.synchronize()
            self._tokens = copy.numpy()
        *last, length = self._tokens[slot].tolist()
        del output[length - prompt :]  # nothing, unless tokens have gone
        known = prompt + len(output)
        if length - known > len(last):  # a sequence that goes on after a preemption
            # The clone is on the device, the original maybe in memory of the host that it reads.
            last = self._states.all_token_ids.gpu[slot, known:length].clone().tolist()
        output += last[len(last) + known - length :]
