"""Requests of each kind, and the responses that are written for them."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from vllm import SamplingParams
from vllm.sampling_params import RequestOutputKind, StructuredOutputsParams
from vllm.v1.engine import EngineCoreRequest

from toolgate_backend.adapters import vllm_host

from .blocks import Kind
from .executor import Response
from .tools import MAX_TOKENS, Tools

PROMPT_IDS = 1000, 8000
"""Ids of ordinary tokens in any vocabulary."""
SHARED_PROMPT, OWN_PROMPT = 512, 8
"""Tokens of a prompt that all requests have, as tools are, and that only this one has."""
PROMPT_TOKENS = SHARED_PROMPT + OWN_PROMPT


class Load:
    """Each kind gets the same responses in the same order."""

    def __init__(
        self,
        tools: Tools,
        responses: Sequence[Sequence[int]],
        ends: Sequence[int],
        first: int = 0,
    ) -> None:
        """`ends`: the model's end-of-turn tokens, the usual one first. `first`: the number of the
        first response."""
        self._first = first
        self._tools, self._responses, self._ends = tools, responses, ends
        self._rng = random.Random(1)
        self._prompt = [self._rng.randrange(*PROMPT_IDS) for _ in range(SHARED_PROMPT)]
        self._made: Counter[Kind] = Counter()

    def next(self, kind: Kind) -> tuple[Any, Response]:
        """A request as the engine's process gets it, and its response."""
        number = self._made[kind]
        self._made[kind] += 1
        own = [self._rng.randrange(*PROMPT_IDS) for _ in range(OWN_PROMPT)]
        request = EngineCoreRequest(
            request_id=f"{kind}-{number}",
            prompt_token_ids=self._prompt + own,
            mm_features=None,
            sampling_params=self._params(kind),
            pooling_params=None,
            arrival_time=time.time(),
            lora_request=None,
            cache_salt=None,
            data_parallel_rank=None,
            reasoning_ended=True if kind == "strict" else None,
        )
        at = number % len(self._responses)
        return request, Response(self._responses[at], kind, self._first + at)

    def _params(self, kind: Kind) -> SamplingParams:
        structured, extra = None, None
        if kind == "strict":
            structured = StructuredOutputsParams(structural_tag=self._tools.strict_tag)
        elif kind == "structured_output":
            structured = vllm_host.structured_outputs_params()
        if kind in ("structured_output", "logits_processor"):
            extra = self._tools.spec.to_extra_args()
        if structured is not None:
            structured._backend = "xgrammar"
        params = SamplingParams(
            temperature=1.0,
            max_tokens=MAX_TOKENS,
            detokenize=False,
            output_kind=RequestOutputKind.DELTA,
            skip_clone=True,
            structured_outputs=structured,
            extra_args=extra,
        )
        params.update_from_generation_config({"eos_token_id": list(self._ends)}, self._ends[0])
        return params
