"""Sampling parameters: one row each, and the rules between them.

To add a parameter that vLLM's `SamplingParams` defines, declare the field in `wire.Sampling` under
vLLM's name and add a row here. The backend passes the field on by its name.
"""

from __future__ import annotations

from typing import Any

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from .parameter import Parameter, ParsedParameters, rows
from .value_types import (
    INT64_MAX,
    INT64_MIN,
    Flag,
    Integer,
    Number,
    Object,
    Texts,
    TokenBiases,
    TokenIds,
)

MAX_STOPS = 64
"""OpenAI allows 4, vLLM any number. The gateway searches every delta for each of them."""
MAX_BAD_WORDS = 1000
MAX_BIASES = 1024
"""OpenAI allows 300. The logits of each step are changed for each of them."""
MAX_TOP_LOGPROBS = 20
MAX_LOGPROB_TOKENS = 1000
"""Limit of `logprob_token_ids`. Their logprobs are computed for every token of the response."""

SAMPLING: tuple[Parameter, ...] = (
    *rows(
        "OpenAI",
        "sampling",
        temperature=(Number(0, 2), "0 selects the most likely token."),
        top_p=(
            Number(0, 1, exclusive_minimum=True),
            "Nucleus sampling.",
        ),
        frequency_penalty=(
            Number(-2, 2),
            "Penalty for each occurrence in the response.",
        ),
        presence_penalty=(Number(-2, 2), "Penalty for tokens in the response."),
        seed=(Integer(INT64_MIN, INT64_MAX), "Seed of the sampler."),
        logit_bias=(
            TokenBiases(100, MAX_BIASES),
            "Forced tokens are unaffected.",
        ),
    ),
    *rows(
        "vLLM",
        "sampling",
        top_k=(
            Integer(-1),
            "-1 and 0 mean all tokens.",
        ),
        min_p=(Number(0, 1), "Relative to the most likely token."),
        repetition_penalty=(
            Number(0, exclusive_minimum=True),
            "Penalty factor for tokens in the prompt or the response.",
        ),
        min_tokens=(
            Integer(0),
            "Minimum length of the content (not of calls), at most `max_tokens`.",
        ),
        ignore_eos=(
            Flag(),
            "Continue the content up to `max_tokens`; calls end by their schema.",
        ),
        stop_token_ids=(
            TokenIds(),
            "They end the content, not reasoning or calls.",
        ),
        bad_words=(
            Texts(MAX_BAD_WORDS, blank=False),
            "For reasoning and content, not for arguments of calls.",
        ),
        allowed_token_ids=(
            TokenIds(minimum=1),
            "Not with tools, formats, reasoning or `bad_words`.",
        ),
        repetition_detection=(
            Object(
                {
                    "max_pattern_size": Integer(1),
                    "min_pattern_size": Integer(1),
                    "min_count": Integer(2),
                },
                required=("max_pattern_size",),
            ),
            "Not with tools or formats.",
        ),
        logprob_token_ids=(
            TokenIds(maximum=MAX_LOGPROB_TOKENS),
            "Tokens in `top_logprobs` of the response. Requires logprobs.",
        ),
        prompt_logprobs=(
            Integer(0, MAX_TOP_LOGPROBS),
            "Alternatives in `prompt_logprobs`. Not in a stream.",
        ),
    ),
    Parameter(
        "stop",
        Texts(MAX_STOPS, single=True),
        "They end the content, not reasoning or calls.",
        to="request",
    ),
    Parameter(
        "include_stop_str_in_output",
        Flag(),
        "Include it in the content.",
        origin="vLLM",
        to="request.include_stop",
    ),
    Parameter(
        "logprobs",
        Flag(),
        "Those of reasoning and calls are in [fields](chat.md#fields) of their own.",
    ),
    Parameter(
        "top_logprobs",
        Integer(0, MAX_TOP_LOGPROBS),
        "Alternatives per token. Requires `logprobs`.",
        to="sampling.logprobs",
    ),
)


def make_sampling(parsed: ParsedParameters) -> wire.Sampling:
    """Raise InvalidRequest or UnsupportedParameter for parameters that contradict each other."""
    values, sampling = parsed.values, parsed.sampling
    _check_lengths(sampling)
    _check_logprobs(values, sampling)
    if parsed.request.get("stream") and "prompt_logprobs" in sampling:
        raise InvalidRequest(
            "'prompt_logprobs' is not available in a stream. Set 'stream' to false.",
            param="prompt_logprobs",
        )
    if sampling.get("bad_words") and "allowed_token_ids" in sampling:
        raise UnsupportedParameter(
            "'allowed_token_ids' can't be combined with 'bad_words', because the two could "
            "exclude every token. Remove one of them.",
            param="allowed_token_ids",
        )
    if "repetition_detection" in sampling:
        _check_pattern_sizes(sampling["repetition_detection"])
    return wire.Sampling(**sampling)


def _check_lengths(sampling: dict[str, Any]) -> None:
    least, most = sampling.get("min_tokens"), sampling.get("max_tokens")
    if least is not None and most is not None and least > most:
        raise InvalidRequest(
            f"'min_tokens' ({least}) must not exceed 'max_tokens' ({most}). Lower 'min_tokens' or "
            "raise 'max_tokens'.",
            param="min_tokens",
        )


def _check_logprobs(values: dict[str, Any], sampling: dict[str, Any]) -> None:
    if values.get("logprobs"):
        sampling.setdefault("logprobs", 0)
    elif sampling.pop("logprobs", None):
        raise InvalidRequest(
            "'top_logprobs' requires 'logprobs'. Set 'logprobs' to true.", param="top_logprobs"
        )
    if not sampling.get("logprob_token_ids"):
        sampling.pop("logprob_token_ids", None)
    elif "logprobs" not in sampling:
        raise InvalidRequest(
            "'logprob_token_ids' requires 'logprobs'. Set 'logprobs' to true.",
            param="logprob_token_ids",
        )


def _check_pattern_sizes(detection: dict[str, int]) -> None:
    least, most = detection.get("min_pattern_size", 1), detection["max_pattern_size"]
    if least > most:
        raise InvalidRequest(
            f"'repetition_detection.min_pattern_size' ({least}) must not exceed "
            f"'max_pattern_size' ({most}).",
            param="repetition_detection.max_pattern_size",
        )
