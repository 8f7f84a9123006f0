"""The chat request of a parsed body: the fields that all APIs fill in the same way."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest, ToolChoice
from toolgate_core.tools import Tool

from .history import History
from .hosted_tools import HostedTools
from .messages import Message, has_images
from .parameter import ParsedParameters


def chat_request(
    parsed: ParsedParameters,
    *,
    prefix: str,
    model: str,
    messages: Sequence[Message],
    paths: tuple[str, ...],
    history: History,
    tools: tuple[Tool, ...],
    hosted: HostedTools,
    choice: ToolChoice,
    **own: Any,
) -> ChatRequest:
    """Return the request with the fields that the rows of the table name. `prefix`: beginning of
    the ids of the API's responses. `paths`: of the messages in the body. `own`: fields that each
    API reads in its own way."""
    values, fields = parsed.values, parsed.request | own
    if "request_id" in values:
        fields["answer_id"] = f"{prefix}_{values['request_id']}"
    return ChatRequest(
        request_id=f"{prefix}_{secrets.token_hex(16)}",
        model=model,
        messages=tuple(messages),
        message_paths=paths,
        history_changes=history.changes,
        images=has_images(messages),
        tools=tools,
        omitted_tools=hosted.types,
        tool_choice=choice,
        tokenizing=wire.Tokenizing(**parsed.tokenizing),
        **fields,
    )
