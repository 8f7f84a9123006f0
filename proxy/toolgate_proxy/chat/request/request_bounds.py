"""Bounds of a request that depend on the model: its context length and its vocabulary.

A backend checks them as well. Here they prevent that a large request is sent to it at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ContextLengthExceeded, InvalidRequest
from toolgate_core.text_size import text_bytes

TOKEN_PARAMETERS = ("logit_bias", "allowed_token_ids", "stop_token_ids", "logprob_token_ids")


def check(request: ChatRequest, info: wire.Info) -> None:
    """Raises InvalidRequest and ContextLengthExceeded."""
    limits = info.limits
    if limits.vocabulary is not None:
        for name in TOKEN_PARAMETERS:
            _check_tokens(name, getattr(request.sampling, name) or (), limits.vocabulary)
    if limits.max_token_bytes is not None:
        tools = [tool.definition for tool in request.tools]
        most = limits.max_model_len * limits.max_token_bytes
        if text_bytes(request.messages, tools, request.template_kwargs, limit=most) > most:
            raise ContextLengthExceeded(
                f"The messages and tools have more than {most:,} bytes of text, which can't fit "
                f"into this model's context of {limits.max_model_len:,} tokens. Shorten them.",
                param="messages",
            )


def _check_tokens(name: str, tokens: Iterable[int], vocabulary: int) -> None:
    outside = next((token for token in tokens if token >= vocabulary), None)
    if outside is not None:
        raise InvalidRequest(
            f"{name!r} contains the token ID {outside}, but this model's vocabulary has "
            f"{vocabulary:,} tokens. Remove it.",
            param=name,
        )
