"""One form for streamed and whole answers, and the checks that every one of them must pass."""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any

import jsonschema
import openai
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from toolgate_proxy.demo.cases import MARKUP, ChoiceOutput


def from_whole(completion: ChatCompletion) -> list[ChoiceOutput]:
    return [
        ChoiceOutput(
            content=choice.message.content or None,
            reasoning=getattr(choice.message, "reasoning_content", None),
            calls=[
                (c.function.name, c.function.arguments) for c in choice.message.tool_calls or []
            ],
            finish_reason=choice.finish_reason,
        )
        for choice in completion.choices
    ]


def from_chunks(chunks: list[ChatCompletionChunk]) -> list[ChoiceOutput]:
    """Collect a stream, and check OpenAI's rules for streams on the way."""
    answers: dict[int, ChoiceOutput] = {}
    assert len({chunk.id for chunk in chunks}) == 1
    for chunk in chunks:
        for choice in chunk.choices:
            delta = choice.delta.model_dump(exclude_none=True)
            if choice.index not in answers:
                assert delta.get("role") == "assistant", "the first delta carries the role"
            answer = answers.setdefault(choice.index, ChoiceOutput())
            assert answer.finish_reason is None, "nothing comes after the finish"
            answer.content = _joined(answer.content, delta.get("content"))
            answer.reasoning = _joined(answer.reasoning, delta.get("reasoning_content"))
            for call in delta.get("tool_calls") or []:
                _add_call(answer, call)
            answer.finish_reason = choice.finish_reason
    assert all(answer.finish_reason for answer in answers.values())
    return [answers[index] for index in sorted(answers)]


def whole(client: openai.OpenAI, request: dict[str, Any]) -> list[ChoiceOutput]:
    return from_whole(client.chat.completions.create(**request))


def streamed(client: openai.OpenAI, request: dict[str, Any]) -> list[ChoiceOutput]:
    return from_chunks([*client.chat.completions.create(**request, stream=True)])


def both_forms(
    client: openai.OpenAI, requests: Sequence[dict[str, Any]], at_once: int = 8
) -> list[list[ChoiceOutput]]:
    """Answer all requests whole and streamed, several at once, and require the forms to be equal.

    Floating-point sums depend on what else is in the batch, so the same seed may sample another
    token. Answers of different tokens are requested again, one at a time.
    """
    with ThreadPoolExecutor(at_once) as pool:
        found = [
            (
                pool.submit(_whole_with_ids, client, each),
                pool.submit(_streamed_with_ids, client, each),
            )
            for each in requests
        ]
    answers: list[list[ChoiceOutput]] = []
    for request, (completion, chunks) in zip(requests, found, strict=True):
        answer, ids = completion.result()
        if (answer, ids) != chunks.result():
            assert ids != chunks.result()[1], "the same tokens make the same answer in both forms"
            answer = whole(client, request)
            assert answer == streamed(client, request)
        answers.append(answer)
    return answers


def check(answer: ChoiceOutput, tools: list[dict[str, Any]]) -> None:
    """No markup anywhere; every call that is not cut parses and is valid by its schema."""
    schemas = {t["function"]["name"]: t["function"]["parameters"] for t in tools}
    for text in (answer.content, answer.reasoning):
        assert not any(mark in (text or "") for mark in MARKUP)
    whole = answer.calls[:-1] if answer.finish_reason == "length" else answer.calls
    for name, arguments in whole:
        jsonschema.validate(json.loads(arguments), schemas[name])


TokenIds = dict[int, list[int]]
"""By the choice's index."""


def _whole_with_ids(
    client: openai.OpenAI, request: dict[str, Any]
) -> tuple[list[ChoiceOutput], TokenIds]:
    completion = client.chat.completions.create(**_with_ids(request))
    return from_whole(completion), _token_ids([completion])


def _streamed_with_ids(
    client: openai.OpenAI, request: dict[str, Any]
) -> tuple[list[ChoiceOutput], TokenIds]:
    chunks = [*client.chat.completions.create(**_with_ids(request), stream=True)]
    return from_chunks(chunks), _token_ids(chunks)


def _with_ids(request: dict[str, Any]) -> dict[str, Any]:
    return {**request, "extra_body": {**request.get("extra_body", {}), "return_token_ids": True}}


def _token_ids(parts: Sequence[ChatCompletion | ChatCompletionChunk]) -> TokenIds:
    found: TokenIds = {}
    for choice in chain.from_iterable(part.choices for part in parts):
        found.setdefault(choice.index, []).extend(getattr(choice, "token_ids", None) or ())
    return found


def _joined(before: str | None, more: str | None) -> str | None:
    return (before or "") + more if more else before


def _add_call(answer: ChoiceOutput, call: dict[str, Any]) -> None:
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
