"""The Messages API through the whole stack: the answers of chat completions, and exact counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema
import openai
import pytest

from tests import tools
from tests.gateway.servers import Gateway
from tests.support.apis.messages_api import accumulated, check_message
from tests.support.apis.typed_events import read_events
from tests.support.servers.http_client import bearer

TEXT = "What's the weather?"
TOOLS = [
    {
        "name": tool["function"]["name"],
        "description": tool["function"].get("description"),
        "input_schema": tool["function"]["parameters"],
    }
    for tool in tools.ALL
]
SCHEMAS = {tool["name"]: tool["input_schema"] for tool in TOOLS}
CHOICES = {"auto": "auto", "any": "required"}


@pytest.fixture
def http(gateway: Gateway) -> Iterator[httpx.Client]:
    headers = bearer(gateway.key)
    with httpx.Client(base_url=gateway.url, headers=headers, timeout=300, verify=False) as http:
        yield http


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("thinking", ["disabled", "adaptive"])
@pytest.mark.parametrize("max_tokens", [40, 400])
def test_a_seeded_message_is_the_seeded_completion(
    http: httpx.Client,
    client: openai.OpenAI,
    common: dict[str, Any],
    choice: str,
    thinking: str,
    max_tokens: int,
) -> None:
    body: dict[str, Any] = {
        **common,
        "max_tokens": max_tokens,
        "system": "Be brief.",
        "messages": [{"role": "user", "content": TEXT}],
        "tools": TOOLS,
        "tool_choice": {"type": choice},
        "thinking": {"type": thinking},
    }
    answer = http.post("/v1/messages", json=body)
    if answer.status_code == 400:  # the shortest call may be longer than max_tokens
        assert (max_tokens, answer.json()["error"]["code"]) == (40, "max_tokens_too_small")
        return
    whole = answer.json()
    check_message(whole)
    stream = http.post("/v1/messages", json=body | {"stream": True})
    made = accumulated(read_events(stream.content))
    assert _said(made) == _said(whole)
    for block in whole["content"]:
        if block["type"] == "tool_use":
            jsonschema.validate(block["input"], SCHEMAS[block["name"]])
    assert (whole["stop_reason"] == "tool_use") == (
        any(block["type"] == "tool_use" for block in whole["content"])
        and whole["stop_reason"] != "max_tokens"
    )
    asked: dict[str, Any] = {
        **common,
        "max_tokens": max_tokens,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": TEXT}],
        "tools": tools.ALL,
        "tool_choice": CHOICES[choice],
        "extra_body": {"enable_thinking": thinking == "adaptive"},
    }
    chat = client.chat.completions.create(**asked).model_dump()
    message = chat["choices"][0]["message"]
    calls = [call["function"] for call in message.get("tool_calls") or []]
    if (chat["choices"][0].get("toolgate") or {}).get("last_call") == "cut":
        calls.pop()
    expected = (
        message["content"] or "",
        message.get("reasoning_content") or "",
        [(call["name"], json.loads(call["arguments"])) for call in calls],
    )
    assert _said(whole) == expected
    counted = http.post("/v1/messages/count_tokens", json=body).json()
    assert counted == {"input_tokens": chat["usage"]["prompt_tokens"]}
    usage = whole["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == counted["input_tokens"]


def _said(message: dict[str, Any]) -> tuple[str, str, list[tuple[str, Any]]]:
    def texts(kind: str, field: str) -> str:
        return "".join(each[field] for each in message["content"] if each["type"] == kind)

    calls = [each for each in message["content"] if each["type"] == "tool_use"]
    return (
        texts("text", "text"),
        texts("thinking", "thinking"),
        [(each["name"], each["input"]) for each in calls],
    )


def test_errors_about_the_context_are_in_anthropics_words(
    http: httpx.Client, common: dict[str, Any]
) -> None:
    """Claude Code reads the numbers."""
    body = {**common, "messages": [{"role": "user", "content": "one two three"}]}
    answer = http.post("/v1/messages", json=body | {"max_tokens": 1_000_000})
    error = answer.json()["error"]
    assert (answer.status_code, error["code"]) == (400, "context_length_exceeded")
    form = r"input length and `max_tokens` exceed context limit: (\d+) \+ (\d+) > (\d+), "
    numbers = re.match(form, error["message"])
    assert numbers is not None, error
    prompt, most, context = map(int, numbers.groups())
    assert most == 1_000_000
    assert http.post("/v1/messages", json=body | {"max_tokens": context - prompt}).is_success
    for words in (context, context * 30):
        long = [{"role": "user", "content": "one " * words}]
        for path in ("/v1/messages", "/v1/messages/count_tokens"):
            refused = http.post(path, json=body | {"messages": long})
            assert refused.status_code == 400
            message = refused.json()["error"]["message"]
            form = r"prompt is too long: (?:about )?(\d+) tokens > (\d+) maximum"
            counted = re.fullmatch(form, message)
            assert counted is not None, message
            assert int(counted[1]) > int(counted[2]) == context
