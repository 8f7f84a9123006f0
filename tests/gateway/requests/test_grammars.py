"""Grammars through the whole stack: their cache tiers, and hostile schemas beside other streams."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import httpx
import openai
import pytest

from tests import tools
from tests.gateway.requests import answers

USER = [{"role": "user", "content": "hi"}]


def new_tool() -> dict[str, Any]:
    return tools.tool(f"tool_{uuid.uuid4().hex}", {"x": {"type": "string", "maxLength": 5}})


def test_headers_name_the_tier_that_a_grammar_came_from(
    client: openai.OpenAI, common: dict[str, Any]
) -> None:
    request = {**common, "messages": USER, "tools": [new_tool()], "tool_choice": "required"}
    tiers = []
    for stream in (False, True, False):
        with client.chat.completions.with_streaming_response.create(
            **request, stream=stream
        ) as response:
            response.read()
            assert response.headers["x-toolgate-enforced"] == "full"
            tiers.append(response.headers["x-toolgate-grammar"].partition(";")[0])
    assert tiers == ["compiled", "memory", "memory"]


def test_without_tools_headers_say_that_nothing_is_enforced(
    client: openai.OpenAI, common: dict[str, Any]
) -> None:
    response = client.chat.completions.with_raw_response.create(**common, messages=USER)
    assert response.headers["x-toolgate-enforced"] == "none"


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


DEFINITION = "#/properties/x/$defs/a"
HOSTILE: dict[str, dict[str, Any]] = {
    "deep": nested(90),
    "many properties": {"type": "object", "properties": {f"p{i}": {} for i in range(6000)}},
    "a long enum": {"type": "string", "enum": [f"v{i}" for i in range(5000)]},
    "remote reference": {"$ref": "https://example.com/schema.json"},
    "required without end": {
        "$defs": {"a": {"type": "object", "properties": {"a": {"$ref": DEFINITION}}}},
        "$ref": DEFINITION,
        "required": ["a"],
    },
}


REFUSALS = ("invalid_tools", "schema_not_enforceable", "schema_too_complex")


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_schema_is_answered_while_another_stream_continues(
    async_client: openai.AsyncOpenAI, common: dict[str, Any], name: str
) -> None:
    request = {**common, "messages": USER, "logit_bias": {}, "max_tokens": 150}
    request |= {"extra_body": {"ignore_eos": True}, "reasoning_effort": "none"}
    stream = await async_client.chat.completions.create(**request, stream=True)
    neighbour = asyncio.create_task(collect(stream))
    hostile = tools.tool("hostile", {"x": HOSTILE[name]})
    refused: openai.BadRequestError | None = None
    try:
        answer = await async_client.chat.completions.create(
            **common, messages=USER, tools=[hostile], tool_choice="required"
        )
        answers.check(answers.from_whole(answer)[0], [hostile])
    except openai.BadRequestError as error:
        refused = error
    if refused is not None:
        assert isinstance(refused.body, dict)
        assert refused.body["code"] in REFUSALS
    [whole] = answers.from_chunks(await neighbour)
    assert whole.finish_reason == "length"


async def collect(stream: Any) -> list[Any]:
    return [chunk async for chunk in stream]


def test_prewarmed_tools_are_in_memory(
    client: openai.OpenAI, common: dict[str, Any], model: str
) -> None:
    tool = new_tool()
    answer = httpx.post(
        f"{client.base_url}".replace("/v1/", "/toolgate/prewarm"),
        json={"model": model, "tools": [tool]},
        headers={"authorization": f"Bearer {client.api_key}"},
        timeout=60,
        trust_env=False,
    )
    assert answer.status_code == 200, answer.text
    response = client.chat.completions.with_raw_response.create(
        **common, messages=USER, tools=[tool], tool_choice="required"
    )
    assert response.headers["x-toolgate-grammar"].startswith("memory")
