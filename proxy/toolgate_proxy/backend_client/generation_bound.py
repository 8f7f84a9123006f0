"""The bound on the response to a request to generate, by what the request asks for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from toolgate_core import wire

from .body import Bound

BASE = Bound(1_000_000, 10_000)
MAX_TOKENS = 2**20
"""Tokens of a choice whose request states no maximum, at most."""
MAX_WHOLE = Bound(64_000_000, 8_000_000)
"""For a response that is not streamed, whatever the request asks for."""

# Per token, upper bounds of averages over a response.
TOKEN_BYTES = 160
"""The id and the text: the longest tokens of vocabularies are runs of 128 spaces."""
TOKEN_VALUES = 8
EVENT_BYTES = 256
EVENT_VALUES = 12
"""The event of one token in a stream."""
ENTRY_BYTES = 256
"""One alternative of a token's logprobs: its text, its bytes and its logprob."""
ENTRY_VALUES = 24
TRACE_BYTES = 512


@dataclass(frozen=True)
class GenerationBound:
    body: Bound
    prompt_tokens: int
    tokens: int
    """Of all choices."""


def fitting(request: wire.GenerateRequest, info: wire.Info | None) -> wire.GenerateRequest:
    """The request, streamed by the backend if the response could be too large for one message."""
    if request.stream or info is None:
        return request
    body = _unlimited(request, info).body
    fits = body.bytes <= MAX_WHOLE.bytes and body.values <= MAX_WHOLE.values
    return request if fits else request.model_copy(update={"stream": True})


def bound_of(request: wire.GenerateRequest, info: wire.Info | None) -> GenerationBound:
    """`info`: the description of the backend."""
    bound = _unlimited(request, info)
    body = Bound(bound.body.bytes, min(bound.body.values, MAX_WHOLE.values))
    if not request.stream:
        body = Bound(min(body.bytes, MAX_WHOLE.bytes), body.values)
    return replace(bound, body=body)


def _unlimited(request: wire.GenerateRequest, info: wire.Info | None) -> GenerationBound:
    sampling = request.sampling
    context = info.limits.max_model_len if info is not None else wire.MAX_COUNT
    each = min(context, MAX_TOKENS if sampling.max_tokens is None else sampling.max_tokens)
    entries = 0
    if sampling.logprobs is not None:
        entries = 1 + max(sampling.logprobs, len(sampling.logprob_token_ids or ()))
    token_bytes = TOKEN_BYTES + entries * ENTRY_BYTES
    if request.stream:
        token_bytes += EVENT_BYTES
    if request.trace is not None:
        token_bytes += TRACE_BYTES
    token_values = TOKEN_VALUES + entries * ENTRY_VALUES
    if request.stream:
        token_values += EVENT_VALUES
    tokens = sampling.n * each
    bytes_, values = tokens * token_bytes, tokens * token_values
    prompt = min(context, MAX_TOKENS)
    if request.return_prompt_ids or request.return_prompt_text:
        bytes_ += prompt * TOKEN_BYTES
        values += prompt
    if sampling.prompt_logprobs is not None:
        of_prompt = sampling.prompt_logprobs + 1
        bytes_ += prompt * of_prompt * ENTRY_BYTES
        values += prompt * of_prompt * ENTRY_VALUES
    body = Bound(BASE.bytes + bytes_, BASE.values + values)
    return GenerationBound(body, prompt_tokens=context, tokens=tokens)
