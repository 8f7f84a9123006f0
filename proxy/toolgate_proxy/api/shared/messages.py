"""Messages in the form of chat templates, which all surfaces produce."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from toolgate_core.custom_tools import INPUT

Message = dict[str, Any]


def in_order_of_calls(messages: Iterable[Message]) -> Iterator[Message]:
    """Sort the results of parallel calls by the order of the calls. Templates leave out the IDs, so
    the order is all that assigns a result to its call."""
    order: dict[str, int] = {}
    results: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            results.append(message)
            continue
        yield from _sorted(results, order)
        results = []
        yield message
        calls = message.get("tool_calls") or []
        order = {str(call.get("id")): at for at, call in enumerate(calls)}
    yield from _sorted(results, order)


def _sorted(results: list[Message], order: dict[str, int]) -> list[Message]:
    return sorted(results, key=lambda each: order.get(str(each.get("tool_call_id")), len(order)))


def function_call(name: str, text: str) -> dict[str, Any]:
    """The call of a custom tool as that of the function that the model is offered."""
    return {"name": name, "arguments": json.dumps({INPUT: text}, ensure_ascii=False)}


def is_object(text: str) -> bool:
    """Whether the arguments of a call are a JSON object, or empty."""
    try:
        return not text or isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


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
