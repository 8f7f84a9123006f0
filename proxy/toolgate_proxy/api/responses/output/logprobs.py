"""Logprobs of the text of a message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolgate_core import wire


def part_logprobs(tokens: Iterable[wire.TokenLogprob]) -> list[dict[str, Any]]:
    """As a content part has them."""
    return [
        {**_with_bytes(token), "top_logprobs": [_with_bytes(top) for top in token.top]}
        for token in tokens
    ]


def event_logprobs(tokens: Iterable[wire.TokenLogprob]) -> list[dict[str, Any]]:
    """As events have them: without bytes."""
    return [
        {**_logprob(token), "top_logprobs": [_logprob(top) for top in token.top]}
        for token in tokens
    ]


def _logprob(token: wire.TopLogprob) -> dict[str, Any]:
    return {"token": token.token, "logprob": token.logprob}


def _with_bytes(token: wire.TopLogprob) -> dict[str, Any]:
    return {**_logprob(token), "bytes": list(token.bytes)}
