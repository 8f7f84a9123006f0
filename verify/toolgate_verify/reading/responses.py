"""Reads response objects of the Responses API and their events."""

from __future__ import annotations

from typing import Any

from ..exchange import Event
from .answer import Answer, Call, Unreadable, Usage, get, integer, optional, text_of
from .sse import data_of

LAST = ("response.completed", "response.incomplete", "response.failed")
ARGUMENTS = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")
CALLS = ("function_call", "custom_tool_call")


def whole(body: Any) -> Answer:
    return answer_of(body, get(body, "output"))


def stream(sent: tuple[Event, ...]) -> Answer:
    """The answer that the deltas add up to; status and usage are those of the last event."""
    last = get(data_of(sent), -1)
    if last.get("type") not in LAST:
        raise Unreadable(f"the stream ends with {last.get('type')!r}")
    items: dict[int, dict[str, Any]] = {}
    for event in data_of(sent):
        kind = str(event.get("type"))
        index = integer(event.get("output_index", 0), "output_index")
        if kind == "response.output_item.added":
            item = dict(get(event, "item"))
            items[index] = {**item, "_text": "", "_arguments": "", "_reasoning": ""}
        elif kind.endswith(".delta") and index in items:
            item, delta = items[index], text_of(event.get("delta"), "delta")
            if kind == "response.output_text.delta":
                item["_text"] += delta
            elif kind in ARGUMENTS:
                item["_arguments"] += delta
            elif "reasoning" in kind:
                item["_reasoning"] += delta
        elif kind == "response.output_item.done" and index in items:
            items[index]["status"] = optional(event, "item", "status")
    answer = answer_of(get(last, "response"), ())
    for index in sorted(items):
        item = items[index]
        answer.text += item["_text"]
        answer.reasoning += item["_reasoning"]
        if item.get("type") in CALLS:
            text = item["_arguments"]
            answer.calls.append(_call({**item, "arguments": text, "input": text}))
    _with_calls(answer)
    return answer


def answer_of(body: Any, output: Any) -> Answer:
    answer = Answer(id=text_of(body.get("id"), "id"), model=text_of(body.get("model"), "model"))
    for item in output:
        kind = optional(item, "type")
        if kind == "message":
            for part in get(item, "content"):
                answer.text += text_of(optional(part, "text"), "text")
        elif kind in CALLS:
            answer.calls.append(_call(item))
        elif kind == "reasoning":
            for part in (*(item.get("content") or ()), *(item.get("summary") or ())):
                answer.reasoning += text_of(optional(part, "text"), "text")
    status = optional(body, "status")
    reason = optional(body, "incomplete_details", "reason")
    answer.finish = {"completed": "stop"}.get(str(status), str(status))
    if status == "incomplete" and reason == "max_output_tokens":
        answer.finish = "length"
    answer.usage = usage(body.get("usage"))
    _with_calls(answer)
    return answer


def _with_calls(answer: Answer) -> None:
    if answer.calls and answer.finish == "stop":
        answer.finish = "calls"


def usage(value: Any) -> Usage | None:
    if value is None:
        return None
    return Usage(
        prompt=integer(get(value, "input_tokens"), "input_tokens"),
        completion=integer(get(value, "output_tokens"), "output_tokens"),
        total=integer(get(value, "total_tokens"), "total_tokens"),
        cached=optional(value, "input_tokens_details", "cached_tokens"),
        reasoning=optional(value, "output_tokens_details", "reasoning_tokens"),
    )


def _call(item: Any) -> Call:
    custom = item.get("type") == "custom_tool_call"
    arguments = get(item, "input" if custom else "arguments")
    if not isinstance(arguments, str):
        raise Unreadable("the text of a call is not a string")
    name, namespace = text_of(get(item, "name"), "name"), item.get("namespace")
    return Call(
        text_of(item.get("call_id"), "call_id"),
        f"{namespace}.{name}" if namespace else name,
        arguments,
        item.get("status") in ("completed", None),
        custom,
    )
