"""Messages in the form of chat templates, which all surfaces produce."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from toolgate_core.custom_tools import INPUT

Message = dict[str, Any]


def function_call(name: str, text: str) -> dict[str, Any]:
    """The call of a custom tool as that of the function that the model is offered."""
    return {"name": name, "arguments": json.dumps({INPUT: text}, ensure_ascii=False)}


def has_images(messages: Sequence[Message]) -> bool:
    parts = (message["content"] for message in messages if isinstance(message["content"], list))
    return any(part["type"] == "image_url" for content in parts for part in content)


def text_of_last(messages: Sequence[Message]) -> str:
    """The text of the last message, if it is the assistant's."""
    last = messages[-1]
    content = last.get("content") if last["role"] == "assistant" else None
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return content or ""
