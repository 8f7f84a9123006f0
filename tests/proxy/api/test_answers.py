"""Answers in all APIs (answers.yaml): what a model writes, and what clients read of it, whole and
streamed, whatever the backend's events arrive together with."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from litellm.types.utils import ModelResponse
from openai.types.chat import ChatCompletionMessageCustomToolCall
from orjson import dumps

from tests.support.apis import replies
from tests.support.apis.chat_events import answered, events
from tests.support.apis.read_responses import of_whole
from tests.support.effort import repeats, rotating
from tests.support.servers.script import call
from toolgate_proxy.api.chat_completions.output import DONE
from toolgate_proxy.backend_client.event_stream import SseParser
from toolgate_verify.terms import Api

from .kit import function, parsed, rows

API = {"chat": Api.CHAT, "responses": Api.RESPONSES, "messages": Api.MESSAGES}
CASES = {f"{api}: {row['name']}": (api, row) for row in rows("answers") for api in row["read"]}
NAMED = {
    "chat": lambda name: {"type": "function", "function": {"name": name}},
    "responses": lambda name: {"type": "function", "name": name},
    "messages": lambda name: {"type": "tool", "name": name},
}
IDS = ("id", "call_id")


def asked(api, row):
    """The neutral members of `asks` in the form of the API, and its own ones."""
    asks, body = row.get("asks", {}), {}
    for name, value in asks.items():
        if name == "tools":
            body[name] = [function(api, x) if isinstance(x, str) else x for x in value]
        elif name == "requires":
            any_ = {"type": "any"} if api == "messages" else "required"
            body["tool_choice"] = any_ if value == "any" else NAMED[api](value)
        elif name == "stop":
            body["stop_sequences" if api == "messages" else "stop"] = value
        elif name not in API:
            body[name] = value
    body |= asks.get(api, {})
    if api == "chat":
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return parsed(api, body)


def written(row):
    """The backend's events. A mapping in a text is a call."""
    texts = [
        "".join(part if isinstance(part, str) else call(*next(iter(part.items()))) for part in text)
        for text in row["writes"]
    ]
    if row.get("cut") is not None:
        texts = [text[: row["cut"]] for text in texts]
    how = {name: row[name] for name in ("logprobs", "reasoning_open") if name in row}
    return events(*texts, finish="length" if row.get("finish") == "length" else "stop", **how)


def shown(reply):
    """What of a reply is not empty."""
    answer = reply.answer
    found = {
        "text": answer.text,
        "reasoning": answer.reasoning,
        "calls": [[each.name, each.arguments] for each in answer.calls],
        "finish": answer.finish,
        "last_call": reply.last_call,
        "stopped_by": reply.stopped_by,
        "logprobs": [each["token"] for each in reply.logprobs],
        "token_ids": reply.token_ids,
    }
    return {name: value for name, value in found.items() if value}


def parts(api, body):
    """Of chat, the reasons of the ends and the members of the messages. Of the others, items or
    blocks: type, status and namespace of those that replies show, all but the ids of the rest."""
    if api == "chat":
        return [
            " ".join(
                [each["finish_reason"], *(k for k, v in each["message"].items() if v is not None)]
            )
            for each in body["choices"]
        ]
    simple = ("text", "thinking", "tool_use", "message", "reasoning", "function_call")
    return [
        " ".join(each[name] for name in ("type", "status", "namespace") if each.get(name))
        if each["type"] in simple
        else {name: value for name, value in each.items() if name not in IDS}
        for each in body["output" if api == "responses" else "content"]
    ]


def read(api, row, cuts):
    """The whole response, what the stream adds up to, and what clients read. Both have the same,
    and keep the rules of the API."""
    data, whole = answered(asked(api, row), written(row), cuts)
    streamed_replies = replies.read(API[api], data, streamed=True)
    whole_replies = replies.read(API[api], dumps(whole), streamed=False)
    sum_ = streamed_replies[0].body
    if api == "chat":
        assert of_whole(sum_) == of_whole(whole)
        assert sum_["usage"] == whole["usage"]
    else:
        changing = {"completed_at": None}
        assert sum_ | changing == whole | changing
        given = [
            each for each in whole["output" if api == "responses" else "content"] if "id" in each
        ]
        assert len({each["id"] for each in given}) == len(given)
    for one, other in zip(streamed_replies, whole_replies, strict=True):
        assert shown(one) == shown(other)
        assert one.answer.usage == other.answer.usage
    return whole, sum_, whole_replies


@pytest.mark.parametrize("name", CASES)
def test_an_answer_is_read_as_the_model_meant_it(name):
    api, row = CASES[name]
    whole, _, found = read(api, row, ())
    expected = row["read"][api]
    assert [shown(reply) for reply in found] == expected["replies"]
    assert parts(api, whole) == expected["parts"]
    read(api, row, range(len(written(row))))


@pytest.mark.exhaustive
@rotating("name", CASES, one_in=6)
@settings(deadline=None, max_examples=repeats(12, nightly=30))
@given(cuts=st.lists(st.integers(0, 80), max_size=10))
def test_streamed_equals_whole_for_any_split(name, cuts):
    read(*CASES[name], cuts)


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("chat")])
def test_litellm_makes_the_same_response_of_the_body(name):
    """On LiteLLM's way the body goes through its `ModelResponse`."""
    _, row = CASES[name]
    _, whole = answered(asked("chat", row), written(row))
    made = ModelResponse(**whole).model_dump()
    assert of_whole(made) == of_whole(whole)
    for field in ("id", "object", "created", "model", "system_fingerprint"):
        assert made[field] == whole[field]
    for count in ("prompt_tokens", "completion_tokens", "total_tokens"):
        assert made["usage"][count] == whole["usage"][count]
    for details in ("prompt_tokens_details", "completion_tokens_details"):
        assert whole["usage"][details].items() <= made["usage"][details].items()


TEXT = 'say "hi" \\ to\n\tthem 😀 and all the others, one by one'


@pytest.mark.parametrize("logprobs", [False, True])
@pytest.mark.parametrize("cuts", [(), (3, 9, 20), tuple(range(40))])
def test_custom_calls_of_chat_have_the_same_input_whole_and_streamed(logprobs, cuts):
    shell = {"type": "custom", "custom": {"name": "shell"}}
    text = call("shell", {"input": TEXT}) + "\n" + call("look", {})
    request = parsed("chat", {"tools": [shell, function("chat")]})
    data, whole = answered(request, events(text, logprobs=logprobs), cuts)
    calls = []
    for chunk in map(json.loads, SseParser().feed(data.removesuffix(DONE))):
        parts = [part for each in chunk["choices"] for part in each["delta"].get("tool_calls", ())]
        for delta in parts:
            if "id" in delta:
                calls.append({key: value for key, value in delta.items() if key != "index"})
            elif "custom" in delta:
                calls[delta["index"]]["custom"]["input"] += delta["custom"]["input"]
            else:
                calls[delta["index"]]["function"]["arguments"] += delta["function"]["arguments"]
    assert calls == whole["choices"][0]["message"]["tool_calls"]
    assert [each["type"] for each in calls] == ["custom", "function"]
    assert calls[0]["custom"] == {"name": "shell", "input": TEXT}
    ChatCompletionMessageCustomToolCall.model_validate(calls[0], strict=True)
    named = parsed("chat", {"tools": [shell], "tool_choice": shell})
    _, whole = answered(named, events(call("shell", {"input": "ls"})), cuts)
    assert whole["choices"][0]["finish_reason"] == "stop"
