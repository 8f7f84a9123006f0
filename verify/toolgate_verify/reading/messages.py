"""Reads messages of the Messages API and their events."""

from __future__ import annotations

import json
from typing import Any

from ..exchange import Event
from .answer import Answer, Call, Usage, get, integer, optional, text_of
from .sse import data_of

STOP = {
    "end_turn": "stop",
    "max_tokens": "length",
    "tool_use": "calls",
    "stop_sequence": "stop_sequence",
}


def whole(body: Any) -> Answer:
    answer = _head(body)
    for block in get(body, "content"):
        kind = optional(block, "type")
        if kind == "text":
            answer.text += text_of(get(block, "text"), "text")
        elif kind == "thinking":
            answer.reasoning += text_of(get(block, "thinking"), "thinking")
        elif kind == "tool_use":
            text = json.dumps(get(block, "input"), ensure_ascii=False)
            answer.calls.append(Call(text_of(block.get("id"), "id"), get(block, "name"), text))
    answer.finish = _stop(body.get("stop_reason"))
    return answer


def stream(sent: tuple[Event, ...]) -> Answer:
    answer = Answer()
    blocks: dict[int, Call] = {}
    for event in data_of(sent):
        kind, index = event.get("type"), event.get("index")
        if kind == "message_start":
            answer = _head(get(event, "message"))
        elif kind == "content_block_start":
            block = get(event, "content_block")
            if block.get("type") == "tool_use":
                name = text_of(get(block, "name"), "name")
                call = Call(text_of(block.get("id"), "id"), name, complete=False)
                blocks[int(index or 0)] = call
                answer.calls.append(call)
        elif kind == "content_block_delta":
            _delta(answer, blocks.get(int(index or 0)), get(event, "delta"))
        elif kind == "content_block_stop" and index in blocks:
            blocks[index].complete = True
            blocks[index].arguments = blocks[index].arguments or "{}"
        elif kind == "message_delta":
            answer.finish = _stop(optional(event, "delta", "stop_reason"))
            _late_usage(answer, event.get("usage"))
    answer.calls = [call for call in answer.calls if call.complete]
    return answer


def usage(value: Any) -> Usage | None:
    """Input tokens are those that no cache had, so the cached ones are added."""
    if value is None:
        return None
    cached = optional(value, "cache_read_input_tokens") or 0
    written = optional(value, "cache_creation_input_tokens") or 0
    fresh = integer(get(value, "input_tokens"), "input_tokens")
    completion = integer(get(value, "output_tokens"), "output_tokens")
    return Usage(fresh + cached + written, completion, cached=cached)


def _late_usage(answer: Answer, value: Any) -> None:
    """The last usage is cumulative; it may leave the input out."""
    if value is None:
        return
    if "input_tokens" in value:
        answer.usage = usage(value)
    elif answer.usage is not None:
        answer.usage.completion = integer(get(value, "output_tokens"), "output_tokens")


def _delta(answer: Answer, call: Call | None, delta: Any) -> None:
    kind = optional(delta, "type")
    if kind == "text_delta":
        answer.text += text_of(get(delta, "text"), "text")
    elif kind == "thinking_delta":
        answer.reasoning += text_of(get(delta, "thinking"), "thinking")
    elif kind == "input_json_delta" and call is not None:
        call.arguments += text_of(get(delta, "partial_json"), "partial_json")


def _head(body: Any) -> Answer:
    return Answer(
        id=text_of(body.get("id"), "id"),
        model=text_of(body.get("model"), "model"),
        usage=usage(body.get("usage")),
    )


def _stop(reason: Any) -> str:
    return STOP.get(str(reason), text_of(reason, "stop_reason"))
