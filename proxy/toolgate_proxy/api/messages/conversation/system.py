"""System prompts and system messages. A system message can add and remove tools."""

from __future__ import annotations

from ....request_fields import Fields, invalid_value
from ...shared.tool_changes import ADDITION, REMOVAL, Define, ToolChanges, text_part
from .content import Part, blocks_of, check_fields, read_text, unsupported_block

BILLING = "x-anthropic-billing-header:"
"""Beginning of a block that Claude Code puts before its system prompt, for Anthropic's accounting.
It changes with each request, so that no prefix of the prompt could be cached."""


def read_system(fields: Fields, name: str) -> str:
    """The text of a system prompt. Raises InvalidRequest and UnsupportedParameter."""
    _check_system(fields, name)
    texts = []
    for block, kind in blocks_of(fields, name):
        if kind != "text":
            raise unsupported_block(block, kind, "a system prompt", ("text",))
        texts.append(_system_text(block))
    return "\n\n".join(filter(None, texts))


def read_system_message(message: Fields, changes: ToolChanges, define: Define) -> list[Part]:
    """The content of a message of the role system, which can add and remove tools. `define` parses
    a tool. Raises InvalidRequest, UnknownTool and UnsupportedParameter."""
    _check_system(message, "content")
    parts = []
    for block, kind in blocks_of(message, "content"):
        if kind in (ADDITION, REMOVAL):
            check_fields(block, ("type", "tool", "cache_control"))
            changes.read(block, kind, define)
        elif kind != "text":
            known = ("text", ADDITION, REMOVAL)
            raise unsupported_block(block, kind, "a system message", known)
        elif text := _system_text(block):
            parts.append(text_part(text))
    return [*parts, *changes.parts(heading=True)]


def _check_system(fields: Fields, name: str) -> None:
    if not isinstance(fields.values.get(name), str | list):
        expected = "a string or an array of text blocks"
        raise invalid_value(fields.path(name), expected, fields.values.get(name))


def _system_text(block: Fields) -> str:
    """The text of a block; empty for one that is left out."""
    text = read_text(block)
    return "" if text.startswith(BILLING) else text
