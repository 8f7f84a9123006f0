"""Errors about the context length in Anthropic's words. Clients such as Claude Code recognize them:
they shorten the conversation, or lower `max_tokens` by the numbers."""

from __future__ import annotations

import re

BUDGET = re.compile(
    r"context length is (?P<context>[\d,]+) tokens\. The prompt takes (?P<prompt>[\d,]+) and "
    r"max_tokens is (?P<most>[\d,]+)"
)
"""Of the backend, which has rendered the prompt."""
RENDERER = re.compile(
    r"maximum context length is (?P<context>[\d,]+) tokens.*?(?P<prompt>[\d,]+) input tokens",
    re.DOTALL,
)
"""Of vLLM's renderer, which stops at the context length."""


def context_message(text: str) -> str:
    """`text`: the message of a ContextLengthExceeded."""
    if found := BUDGET.search(text):
        prompt, most, context = (_number(found[name]) for name in ("prompt", "most", "context"))
        if prompt < context:
            return (
                f"input length and `max_tokens` exceed context limit: {prompt} + {most} > "
                f"{context}, decrease input length or `max_tokens` and try again"
            )
        return f"prompt is too long: {prompt} tokens > {context} maximum"
    if found := RENDERER.search(text):
        prompt, context = _number(found["prompt"]), _number(found["context"])
        return f"prompt is too long: {max(prompt, context + 1)} tokens > {context} maximum"
    return f"prompt is too long: {text}"


def _number(text: str) -> int:
    return int(text.replace(",", ""))
