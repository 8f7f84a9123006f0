"""One form for streamed and whole answers, and the checks that every one of them must pass."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from toolgate_proxy.demo.cases import MARKUP, Answer


def from_whole(completion: ChatCompletion) -> list[Answer]:
    return [
        Answer(
            content=choice.message.content or None,
            reasoning=getattr(choice.message, "reasoning_content", None),
            calls=[
                (c.function.name, c.function.arguments) for c in choice.message.tool_calls or []
            ],
            finish_reason=choice.finish_reason,
        )
        for choice in completion.choices
    ]


def from_chunks(chunks: list[ChatCompletionChunk]) -> list[Answer]:
    """Collects a stream, and holds it to OpenAI's rules on the way."""
    answers: dict[int, Answer] = {}
    assert len({chunk.id for chunk in chunks}) == 1
    for chunk in chunks:
        for choice in chunk.choices:
            delta = choice.delta.model_dump(exclude_none=True)
            if choice.index not in answers:
                assert delta.get("role") == "assistant", "the first delta carries the role"
            answer = answers.setdefault(choice.index, Answer())
            assert answer.finish_reason is None, "nothing comes after the finish"
            answer.content = _joined(answer.content, delta.get("content"))
            answer.reasoning = _joined(answer.reasoning, delta.get("reasoning_content"))
            for call in delta.get("tool_calls") or []:
                _add_call(answer, call)
            answer.finish_reason = choice.finish_reason
    assert all(answer.finish_reason for answer in answers.values())
    return [answers[index] for index in sorted(answers)]


def check(answer: Answer, tools: list[dict[str, Any]]) -> None:
    """No markup anywhere; every call that is not cut parses and is valid by its schema."""
    schemas = {t["function"]["name"]: t["function"]["parameters"] for t in tools}
    for text in (answer.content, answer.reasoning):
        assert not any(mark in (text or "") for mark in MARKUP)
    whole = answer.calls[:-1] if answer.finish_reason == "length" else answer.calls
    for name, arguments in whole:
        jsonschema.validate(json.loads(arguments), schemas[name])


def _joined(before: str | None, more: str | None) -> str | None:
    return (before or "") + more if more else before


def _add_call(answer: Answer, call: dict[str, Any]) -> None:
    function = call.get("function", {})
    if call["index"] == len(answer.calls):
        assert call["id"]
        assert call["type"] == "function"
        answer.calls.append((function["name"], function.get("arguments", "")))
        return
    assert call["index"] == len(answer.calls) - 1, "calls come one after the other"
    assert "id" not in call
    assert "name" not in function
    name, arguments = answer.calls[-1]
    answer.calls[-1] = (name, arguments + function["arguments"])
