"""The system prompt: `system`, and messages of the role `system`."""

from __future__ import annotations

from ....request_fields import Fields, invalid_value
from .content import blocks_of, read_text, unsupported_block

BILLING = "x-anthropic-billing-header:"
"""Beginning of a block that Claude Code puts before its system prompt, for Anthropic's accounting.
It changes with each request, so that no prefix of the prompt could be cached."""


def read_system(fields: Fields, name: str) -> str:
    """The text of a system prompt. Raises InvalidRequest and UnsupportedParameter."""
    if not isinstance(fields.values.get(name), str | list):
        expected = "a string or an array of text blocks"
        raise invalid_value(fields.path(name), expected, fields.values.get(name))
    texts = []
    for block, kind in blocks_of(fields, name):
        if kind != "text":
            raise unsupported_block(block, kind, "a system prompt", ("text",))
        text = read_text(block)
        if text and not text.startswith(BILLING):
            texts.append(text)
    return "\n\n".join(texts)
