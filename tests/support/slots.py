"""What vLLM's V2 model runner shows a logits processor, on a CPU."""

import copy
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from toolgate_backend.adapters.token_history import TokenHistory


def slot_states(slots: int, length: int) -> Any:
    """As a LogitsProcRequestState, for sequences of at most `length` tokens."""
    return SimpleNamespace(
        device=torch.device("cpu"),
        all_token_ids=SimpleNamespace(gpu=torch.zeros((slots, length), dtype=torch.int32)),
        total_len=SimpleNamespace(gpu=torch.zeros(slots, dtype=torch.int32)),
        prompt_len=SimpleNamespace(np=np.zeros(slots, np.int32)),
    )


def write_tokens(states: Any, slot: int, tokens: Sequence[int]) -> None:
    """Make these all tokens of the sequence in a slot."""
    states.all_token_ids.gpu[slot, : len(tokens)] = torch.tensor(tokens, dtype=torch.int32)
    states.total_len.gpu[slot] = len(tokens)


def context(batch: Sequence[tuple[int, Sequence[int]]]) -> Any:
    """As a LogitsContext. `batch`: slots, each with its last token and its drafts."""
    rows = [(slot, token) for slot, tokens in batch for token in tokens]
    return SimpleNamespace(
        idx_mapping_np=np.array([slot for slot, _ in batch]),
        expanded_idx_mapping=torch.tensor([slot for slot, _ in rows]),
        input_ids=torch.tensor([token for _, token in rows], dtype=torch.int32),
    )


class Slots:
    """The slots of requests, and the calls of a processor. A request keeps its slot until it is
    preempted or finished."""

    def __init__(self, processor: Any, slots: int, length: int, most: int) -> None:
        """`most`: tokens of a request in a step."""
        self._states = slot_states(slots, length)
        self._processor = copy.copy(processor)
        self._processor._states, self._processor._sequences = self._states, {}
        self._processor._history = TokenHistory(self._states, most)
        self._free, self._slots = [*range(slots)], dict[str, int]()

    def begin_step(self, scheduled: Any, states: Any, outputs: Any) -> None:
        """`states` and `outputs`: of each request, vLLM's CachedRequestState and its tokens."""
        for name in scheduled.finished_req_ids | {*(scheduled.preempted_req_ids or ())}:
            self._free += [self._slots.pop(each) for each in {name} & self._slots.keys()]
        for name in scheduled.num_scheduled_tokens:
            state, is_new = states[name], name not in self._slots
            slot = self._slots.setdefault(name, self._free[-1]) if is_new else self._slots[name]
            self._states.prompt_len.np[slot] = len(state.prompt_token_ids)
            write_tokens(self._states, slot, [*state.prompt_token_ids, *outputs[name]])
            if is_new:
                self._processor.add_request(self._free.pop(), state.sampling_params)
        self._processor.apply_staged_writes()

    def apply(self, logits: Any, drafts: Mapping[str, Sequence[int]]) -> Any:
        """`drafts`: of each request, in the order of the batch."""
        batch = [(self._slots[name], [0, *tokens]) for name, tokens in drafts.items()]
        return self._processor.apply(logits, context(batch))
