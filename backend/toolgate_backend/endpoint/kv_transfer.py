"""Separate engines for prefill and decode, between which vLLM's KV connector moves the cache.

A router sends a request to a prefill engine first, and then with the `kv_transfer_params` of that
response to a decode engine. Only the decode engine enforces anything: the prefill step has no
grammars, and its response has no tokens.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from vllm.sampling_params import RequestOutputKind, SamplingParams

from toolgate_core import wire
from toolgate_core.chat_shape import TRANSFER


def transfer_of(request: wire.GenerateRequest) -> dict[str, Any] | None:
    """Return the parameters for the connector, or None if each engine computes the prompt itself.

    A prefill engine frees its blocks when one sequence has read them, so several choices cannot
    share them. Logprobs of a prompt exist only where the prompt is computed."""
    if request.sampling.n > 1 or request.sampling.prompt_logprobs is not None:
        return None
    return request.kv_transfer_params


def prefill_params() -> SamplingParams:
    """Return parameters by which vLLM computes a prompt and samples one token, which is dropped.
    Connectors keep the cache only of a sequence that ends by its length."""
    return SamplingParams(
        max_tokens=1,
        temperature=0,
        ignore_eos=True,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def with_transfer(params: SamplingParams, request: wire.GenerateRequest) -> SamplingParams:
    transfer = transfer_of(request)
    if transfer is not None:
        params.extra_args = {**(params.extra_args or {}), TRANSFER: transfer}
    return params


def engine_request_id(request: wire.GenerateRequest, headers: Mapping[str, str]) -> str:
    """Return the request's id in the engine. Some connectors read the addresses of both engines
    from it, or compare it with the `x-request-id` of the router. vLLM adds the same prefix."""
    name = headers.get("x-request-id") if transfer_of(request) else None
    return f"chatcmpl-{name}" if name else request.request_id


def data_parallel_rank(headers: Mapping[str, str]) -> int | None:
    """Return the engine that a router has chosen among those of this server."""
    rank = headers.get("x-data-parallel-rank", "")
    return int(rank) if rank.isdecimal() else None


def prefilled(request: wire.GenerateRequest, prompt_tokens: int, output: Any) -> dict[str, Any]:
    """Return the response of a prefill step: a chat completion without choices, which no gateway
    accepts as a response. `output`: the last output of vLLM."""
    return {
        "id": request.request_id,
        "object": "chat.completion",
        "created": int(time.time()),
        "model": request.model,
        "choices": [],
        # Without cached tokens, which routers would look for in the decode engine's events.
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": 0,
            "total_tokens": prompt_tokens,
        },
        TRANSFER: output.kv_transfer_params,
    }


async def free_remote_blocks(
    engine: Any, request: wire.GenerateRequest, headers: Mapping[str, str]
) -> None:
    """Let a prefill engine free the cache that it keeps for this request, which is refused before
    the engine knows it. Otherwise it is kept for minutes."""
    transfer = transfer_of(request) or {}
    if transfer.get("do_remote_prefill") and engine.vllm_config.kv_transfer_config is not None:
        # The refusal is what the client needs to know.
        with suppress(Exception):
            await engine.notify_kv_transfer_request_rejected(
                engine_request_id(request, headers),
                transfer,
                data_parallel_rank=data_parallel_rank(headers),
            )
