"""Bounds of a request that depend on the model: its context length and its vocabulary."""

from __future__ import annotations

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest
from toolgate_core.prompt_bounds import check_text, check_token_ids


def check(request: ChatRequest, info: wire.Info) -> None:
    """Raises InvalidRequest and ContextLengthExceeded."""
    limits = info.limits
    if limits.vocabulary is not None:
        check_token_ids(request.sampling, limits.vocabulary)
    if limits.max_token_bytes is not None:
        tools = [tool.definition for tool in request.tools]
        check_text(
            request.messages,
            tools,
            request.template_kwargs,
            context=limits.max_model_len,
            max_token_bytes=limits.max_token_bytes,
        )
