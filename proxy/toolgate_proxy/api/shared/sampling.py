"""The rules between sampling parameters."""

from __future__ import annotations

from typing import Any

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest, UnsupportedParameter

from .parameter import ParsedParameters


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
