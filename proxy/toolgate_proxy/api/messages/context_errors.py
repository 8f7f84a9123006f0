"""Errors about the context length in Anthropic's words. Clients such as Claude Code recognize them:
they shorten the conversation, or lower `max_tokens` by the numbers."""

from __future__ import annotations

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import ContextLengthExceeded
from toolgate_core.text_size import BYTES_PER_TOKEN, text_bytes


def context_message(error: ContextLengthExceeded, request: ChatRequest | None) -> str:
    """Return the message of an error. `request`: the request that failed, if it was parsed."""
    context, prompt, output = error.context, error.prompt, error.output
    if context is None:
        return f"prompt is too long: {error.message}"
    if prompt is not None and output is not None:
        return (
            f"input length and `max_tokens` exceed context limit: {prompt} + {output} > {context}, "
            "decrease input length or `max_tokens` and try again"
        )
    if output is not None:
        return error.message
    counted = f"about {_estimate(context, request)}" if prompt is None else f"{prompt}"
    return f"prompt is too long: {counted} tokens > {context} maximum"


def _estimate(context: int, request: ChatRequest | None) -> int:
    if request is None:
        return context + 1
    tools = [tool.definition for tool in request.tools]
    return max(context + 1, text_bytes(request.messages, tools) // BYTES_PER_TOKEN)
