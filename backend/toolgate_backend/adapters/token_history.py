"""The tokens of sequences on vLLM's V2 model runner, which keeps them on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


class TokenHistory:
    """The last tokens of all sequences are copied to the host before each forward pass, so that
    whoever needs them waits for the step before, not for this one."""

    def __init__(self, states: Any, most: int) -> None:
        """`states`: vLLM's LogitsProcRequestState. `most`: tokens of a sequence in a step."""
        self._states = states
        lengths = states.total_len.gpu
        self._last = torch.arange(-most, 0, device=lengths.device)
        self._copied = torch.cuda.Event() if lengths.is_cuda else None
        self._copy = lengths
        self._tokens: Sequence[Sequence[int]] = ()

    def copy(self) -> None:
        """Queue the copy of the tokens that are there when the steps before are done."""
        written, lengths = self._states.all_token_ids.gpu, self._states.total_len.gpu[:, None]
        tokens = written.gather(1, (lengths + self._last).clamp_(0, written.shape[1] - 1))
        self._copy = torch.cat((tokens, lengths), 1).to("cpu", non_blocking=True)
        if self._copied is not None:
            self._copied.record()
        self._tokens = ()

    def update(self, output: list[int], slot: int, prompt: int) -> None:
        """Make `output` that of the sequence in a slot, after a prompt of this length."""
        if not self._tokens:
            if self._copied is not None:
                self._copied.synchronize()
            self._tokens = self._copy.tolist()
        *last, length = self._tokens[slot]
        del output[length - prompt :]  # nothing, unless tokens have gone
        known = prompt + len(output)
        if length - known <= len(last):
            output += last[len(last) + known - length :]
            return
        # A sequence that goes on after a preemption. The clone is on the device, while the original
        # may be in memory of the host that the device reads.
        output += self._states.all_token_ids.gpu[slot, known:length].clone().tolist()
