"""Reads chat completions and their chunks."""

from __future__ import annotations

from typing import Any

from ..exchange import Event
from .answer import Answer, Call, Unreadable, Usage, get, integer, optional, text_of
from .sse import data_of

FINISH = {"stop": "stop", "length": "length", "tool_calls": "calls", "function_call": "calls"}


def whole(body: Any, choice: int = 0) -> Answer:
    chosen = get(body, "choices", choice)
    message = get(chosen, "message")
    return Answer(
        id=text_of(body.get("id"), "id"),
        model=text_of(body.get("model"), "model"),
        text=text_of(optional(message, "content"), "content"),
        reasoning=_reasoning(message),
        calls=[_call(call) for call in _called(message)],
        finish=_finish(chosen),
        usage=usage(body.get("usage")),
        choices=len(body["choices"]),
    )


def stream(sent: tuple[Event, ...], choice: int = 0) -> Answer:
    answer, calls = Answer(choices=0), dict[int, Call]()
    for chunk in data_of(sent):
        answer.id = answer.id or text_of(chunk.get("id"), "id")
        answer.model = answer.model or text_of(chunk.get("model"), "model")
        if chunk.get("usage") is not None:
            answer.usage = usage(chunk["usage"])
        for chosen in chunk.get("choices") or ():
            index = optional(chosen, "index") or 0
            answer.choices = max(answer.choices, index + 1)
            if index != choice:
                continue
            delta = optional(chosen, "delta") or {}
            answer.text += text_of(delta.get("content"), "content")
            answer.reasoning += _reasoning(delta)
            for part in _called(delta):
                _add(calls, part)
            if optional(chosen, "finish_reason") is not None:
                answer.finish = _finish(chosen)
    answer.calls = [calls[index] for index in sorted(calls)]
    return answer


def usage(value: Any) -> Usage | None:
    if value is None:
        return None
    return Usage(
        prompt=integer(get(value, "prompt_tokens"), "prompt_tokens"),
        completion=integer(get(value, "completion_tokens"), "completion_tokens"),
        total=integer(get(value, "total_tokens"), "total_tokens"),
        cached=optional(value, "prompt_tokens_details", "cached_tokens"),
        reasoning=optional(value, "completion_tokens_details", "reasoning_tokens"),
    )


def _called(message: Any) -> list[Any]:
    """Return the calls of a message or a delta. `function_call` is the earlier form of a single
    call."""
    call = optional(message, "function_call")
    return [{"index": 0, "function": call}] if call else list(optional(message, "tool_calls") or ())


def _add(calls: dict[int, Call], part: Any) -> None:
    index = integer(get(part, "index"), "tool_calls[].index")
    call = calls.setdefault(index, Call())
    call.id = call.id or text_of(part.get("id"), "id")
    call.name += text_of(optional(part, "function", "name"), "name")
    call.arguments += text_of(optional(part, "function", "arguments"), "arguments")


def _call(call: Any) -> Call:
    arguments = get(call, "function", "arguments")
    if not isinstance(arguments, str):
        raise Unreadable("`arguments` is not a string")
    return Call(
        text_of(optional(call, "id"), "id"),
        text_of(get(call, "function", "name"), "name"),
        arguments,
    )


def _reasoning(message: Any) -> str:
    """`reasoning_content` is DeepSeek's field, `reasoning` that of other servers."""
    text = optional(message, "reasoning_content") or optional(message, "reasoning")
    return text_of(text, "reasoning_content")


def _finish(choice: Any) -> str:
    reason = text_of(optional(choice, "finish_reason"), "finish_reason")
    return FINISH.get(reason, reason)
