"""The part of a model runner around vLLM's persistent batch: rows, logits, rejection, drafts.

Real: InputBatch with its BatchUpdate, condensation and repair of placeholders, the application of
masks, the logits processor in the calls of both model runners, and the rejection sampler's CPU
kernels. Ours: the order of the calls, which follows vllm/v1/worker/gpu_model_runner.py, the logits
and the drafts.
"""

import random
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from vllm.v1.outputs import DraftTokenIds, ModelRunnerOutput
from vllm.v1.sample.rejection_sampler import rejection_sample
from vllm.v1.structured_output import utils
from vllm.v1.worker.gpu_input_batch import CachedRequestState

from tests.long.scheduler.engine import DEVICE, MAX_LENGTH, make_batch, processor
from tests.long.scheduler.oracle import FakeModel, Profile
from tests.support.request_state import new_request_state
from tests.support.slots import Slots
from toolgate_backend.adapters import mask_worker
from toolgate_backend.adapters.apply_masks import make_table


class _Copied:
    """The event that vLLM waits for before it reads sampled tokens. They are here already."""

    def synchronize(self) -> None:
        pass


@dataclass
class _Batch:
    """What a step needs of the batch, which may have moved on under async scheduling."""

    scheduled: Any
    complete: dict[str, bool]
    """By request, whether the step ends its prefill, so that it samples."""


class Runner:
    def __init__(self, profile: Profile, model: FakeModel, rng: random.Random) -> None:
        self._profile, self._model, self._rng = profile, model, rng
        self.batch = make_batch(profile, model.vocabulary.size)
        self._states: dict[str, CachedRequestState] = {}
        self.sampled: dict[str, list[int]] = {}
        """All tokens of each request so far, those that the scheduler has not seen included."""
        self._drafts: dict[str, list[int]] = {}
        self._step: _Batch | None = None
        self.moves = 0
        self._slots = None
        if profile.adapter == "logits_processor_v2":
            length, most = MAX_LENGTH + 16, 1 + profile.drafts
            self._slots = Slots(processor(), profile.rows, length, most)
        self._masks = SimpleNamespace(apply_grammar_bitmask=utils.apply_grammar_bitmask)
        table = make_table(DEVICE, model.vocabulary.size, forces=False)
        mask_worker.hook(self._masks, mask_worker.read_v1, table)

    def execute(self, scheduled: Any) -> None:
        """Update the batch, as `_update_states` does, and end with the forward pass."""
        batch = self.batch
        for request in scheduled.finished_req_ids:
            self._states.pop(request, None)
            self.sampled.pop(request, None)
            self._drafts.pop(request, None)
            batch.remove_request(request)
        cached = scheduled.scheduled_cached_reqs
        here = scheduled.num_scheduled_tokens.keys() - cached.resumed_req_ids
        for request in sorted(batch.req_id_to_index.keys() - here):
            batch.remove_request(request)
        added = [self._new_state(new) for new in scheduled.scheduled_new_reqs]
        for position, request in enumerate(cached.req_ids):
            self._update(scheduled, position, request, added)
        for state in added:
            batch.add_request(state)
            batch.update_req_spec_token_ids(state, scheduled.scheduled_spec_decode_tokens)
        before = list(batch._req_ids)
        batch.condense()
        if batch.num_reqs > 1 and self._rng.random() < 0.2:  # attention back ends reorder rows
            first, second = self._rng.sample(range(batch.num_reqs), 2)
            batch.swap_states(first, second)
        self.moves += list(batch._req_ids) != before
        batch.refresh_metadata()
        complete = {}
        for request in batch.req_ids:
            index = batch.req_id_to_index[request]
            state = self._states[request]
            known = int(batch.num_computed_tokens_cpu[index])
            known += scheduled.num_scheduled_tokens[request]
            complete[request] = known >= state.num_prompt_tokens + len(self.sampled[request])
        self._step = _Batch(scheduled, complete)
        if self._slots is not None:
            self._slots.begin_step(scheduled, self._states, self.sampled)
        if self._profile.shape == "forced":
            placed = scheduled.scheduled_spec_decode_tokens
            self._drafts = {request: list(drafts) for request, drafts in placed.items()}

    def _new_state(self, new: Any) -> CachedRequestState:
        state = new_request_state(new)
        self._states[new.req_id] = state
        self.sampled[new.req_id] = []
        return state

    def _update(
        self, scheduled: Any, position: int, request: str, added: list[CachedRequestState]
    ) -> None:
        cached, state, batch = scheduled.scheduled_cached_reqs, self._states[request], self.batch
        index = batch.req_id_to_index.get(request)
        count, blocks = cached.num_output_tokens[position], cached.new_block_ids[position]
        state.num_computed_tokens = cached.num_computed_tokens[position]
        if state.prev_num_draft_len and self._profile.async_scheduling:
            if index is None:
                state.prev_num_draft_len = 0
            else:
                state.output_token_ids.extend([-1] * state.prev_num_draft_len)
        if count < len(state.output_token_ids):
            del state.output_token_ids[count:]
        if request in cached.resumed_req_ids:
            state.block_ids = blocks
        elif blocks is not None:
            for known, new in zip(state.block_ids, blocks, strict=True):
                known.extend(new)
        if index is None:
            if self._profile.async_scheduling and count:
                state.output_token_ids = list(cached.all_token_ids[request][-count:])
                self.sampled[request] = list(state.output_token_ids)
            added.append(state)
            return
        batch.num_computed_tokens_cpu[index] = state.num_computed_tokens
        if blocks is not None:
            batch.block_table.append_row(blocks, index)
        batch.update_req_spec_token_ids(state, scheduled.scheduled_spec_decode_tokens)

    def sample(self, grammar_output: Any) -> ModelRunnerOutput:
        assert self._step is not None
        scheduled, batch = self._step.scheduled, self.batch
        placed = scheduled.scheduled_spec_decode_tokens
        ids = list(batch.req_ids)
        drafts = {request: self._placed_drafts(request, placed.get(request, ())) for request in ids}
        rows = sum(1 + len(drafts[request]) for request in ids)
        logits = torch.zeros(rows, self._model.vocabulary.size)
        if self._profile.adapter == "logits_processor":
            batch.update_async_output_token_ids()
            for each in batch.logitsprocs.non_argmax_invariant:
                logits = each.apply(logits)
        elif self._slots is not None:
            logits = self._slots.apply(logits, drafts)
        elif grammar_output is not None:
            self._masks.apply_grammar_bitmask(scheduled, grammar_output, batch, logits)
        row = 0
        expected: list[list[int]] = []
        for request in ids:
            count = 1 + len(drafts[request])
            tokens = []
            if self._step.complete[request]:
                here = logits[row : row + count]
                tokens = self._model.sample(
                    request, self.sampled[request], drafts[request], here.numpy()
                )
            expected.append(tokens)
            row += count
        found = self._reject(logits, [drafts[request] for request in ids])
        for request, tokens, real in zip(ids, expected, found, strict=True):
            if tokens and real != tokens:
                raise AssertionError(f"the rejection sampler gives {real}, not {tokens}")
            self._keep(request, tokens)
        self._place_async(ids, expected)
        return ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={request: index for index, request in enumerate(ids)},
            sampled_token_ids=expected,
        )

    def _placed_drafts(self, request: str, placed: Any) -> list[int]:
        """The tokens at the draft positions. Under async scheduling the worker has them, and the
        scheduler sees placeholders, or padding where the grammar refuses a draft. −1 where the
        worker has no draft. Forced text is what the scheduler sent with the step; when it is
        sampled, the scheduler may have padding instead."""
        if not self._profile.async_scheduling:
            return list(placed)
        drafts = self._drafts.get(request, [])[: len(placed)]
        return drafts + [-1] * (len(placed) - len(drafts))

    def _keep(self, request: str, tokens: list[int]) -> None:
        index, state = self.batch.req_id_to_index[request], self._states[request]
        if not tokens:
            return
        begin = int(self.batch.num_tokens_no_spec[index])
        end = min(begin + len(tokens), self.batch.token_ids_cpu.shape[1])
        self.sampled[request].extend(tokens)
        if self._profile.async_scheduling:
            state.output_token_ids.append(-1)
            self.batch.num_tokens_no_spec[index] = min(begin + 1, end)
            return
        self.batch.token_ids_cpu[index, begin:end] = tokens[: end - begin]
        self.batch.num_tokens_no_spec[index] = end
        state.output_token_ids.extend(tokens)

    def _place_async(self, ids: list[str], tokens: list[list[int]]) -> None:
        if not self._profile.async_scheduling:
            return
        width = max(map(len, tokens), default=0)
        padded = [each + [-1] * (width - len(each)) for each in tokens]
        self.batch.prev_req_id_to_index = {
            request: index for index, request in enumerate(ids) if tokens[index]
        }
        self.batch.set_async_sampled_token_ids(
            torch.tensor(padded, dtype=torch.int64).reshape(len(ids), width), _Copied()
        )

    def _reject(self, logits: torch.Tensor, drafts: list[list[int]]) -> list[list[int]]:
        """The tokens that vLLM's greedy rejection sampler makes of the drafts and logits."""
        counts = [len(each) for each in drafts]
        best = logits.argmax(dim=-1)
        ends = np.cumsum([count + 1 for count in counts]) - 1
        bonus = best[torch.from_numpy(ends)]
        if not any(counts):
            return [[token] for token in bonus.tolist()]
        targets = np.setdiff1d(np.arange(len(logits)), ends)
        output = rejection_sample(
            torch.tensor([t for each in drafts for t in each], dtype=torch.int32, device=DEVICE),
            counts,
            max(counts),
            torch.tensor(np.cumsum(counts), dtype=torch.int32),
            None,
            logits[torch.from_numpy(targets)],
            bonus[:, None].to(torch.int32),
            self.batch.sampling_metadata,
        )
        return [[t for t in row if t >= 0] for row in output.tolist()]

    def propose(self) -> DraftTokenIds | None:
        """Drafts for the next step, of the requests that sampled in this one."""
        if not self._profile.drafts or self._profile.shape == "forced":
            return None
        assert self._step is not None
        ids = list(self.batch.req_ids)
        self._drafts = {
            request: self._model.draft(request, self.sampled[request], self._profile)
            if self._step.complete.get(request)
            else []
            for request in ids
        }
        return DraftTokenIds(ids, [list(self._drafts[request]) for request in ids])
