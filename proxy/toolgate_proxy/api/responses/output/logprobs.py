"""Logprobs of the text of a message."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from toolgate_core import wire


def text_logprobs(tokens: Iterable[wire.TokenLogprob]) -> list[dict[str, Any]]:
    """As content parts and events have them. OpenAI's events have no bytes, but those of the Open
    Responses specification do."""
    return [
        {**_logprob(token), "top_logprobs": [_logprob(top) for top in token.top]}
        for token in tokens
    ]


def _logprob(token: wire.TopLogprob) -> dict[str, Any]:
    return {"token": token.token, "logprob": token.logprob, "bytes": list(token.bytes)}
