"""The Responses API of a running gateway, through the OpenAI SDK."""

from __future__ import annotations

from typing import Any

import httpx
import openai
import pytest
from pydantic import BaseModel

from tests.support.apis.read_responses import read_events
from tests.support.apis.responses_api import accumulated, check_response
from tests.support.apis.sdk_requests import SCRIPTS, WEATHER, asked, whole
from tests.support.litellm.routes import OWN_ROUTE_ONLY
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.script import Script

pytestmark = OWN_ROUTE_ONLY

FUNCTION: Any = WEATHER["function"]
TOOL: Any = {"type": "function", "strict": False, **FUNCTION}


def signature(body: dict[str, Any]) -> tuple[Any, ...]:
    def texts(kind: str) -> str:
        items = [item for item in body["output"] if item["type"] == kind]
        return "".join(part["text"] for item in items for part in item["content"])

    calls = [item for item in body["output"] if item["type"] == "function_call"]
    return (
        texts("message"),
        texts("reasoning") or None,
        [(call["name"], call["arguments"]) for call in calls],
    )


@pytest.mark.parametrize("name", SCRIPTS)
async def test_streamed_is_whole_is_chat(
    http: httpx.AsyncClient, client: openai.AsyncOpenAI, backend: FakeBackend, name: str
) -> None:
    backend.scripts |= SCRIPTS
    body = {"model": "tiny", "input": name, "tools": [TOOL]}
    answer = await http.post("/v1/responses", json=body)
    assert answer.status_code == 200, answer.text
    check_response(answer.json())
    stream = await http.post("/v1/responses", json=body | {"stream": True})
    made = read_events(stream.content)
    last = made[-1]["response"]
    assert accumulated(made) == last["output"]
    chat, usage = await whole(client, **asked(name, tools=[WEATHER]))
    assert signature(answer.json()) == signature(last) == chat[0][:3]
    assert answer.json()["usage"] == last["usage"]
    assert last["usage"]["total_tokens"] == usage["total_tokens"]


async def test_sdk_creates_streams_and_parses(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    class City(BaseModel):
        city: str

    backend.scripts |= SCRIPTS | {"parsed": Script(('{"city": "Oslo"}',))}
    created = await client.responses.create(model="tiny", input="content")
    assert created.output_text == "Hello there, friend"
    async with client.responses.stream(model="tiny", input="call", tools=[TOOL]) as stream:
        seen = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert seen[-1] == "response.completed"
    assert final.output[0].type == "function_call"
    parsed = await client.responses.parse(model="tiny", input="parsed", text_format=City)
    assert parsed.output_parsed == City(city="Oslo")


async def test_a_conversation_is_continued_by_its_items(
    client: openai.AsyncOpenAI, backend: FakeBackend
) -> None:
    backend.scripts |= SCRIPTS
    first = await client.responses.create(model="tiny", input="content and calls", tools=[TOOL])
    items: Any = [{"role": "user", "content": "content"}]
    items += [item.model_dump(exclude_none=True) for item in first.output]
    for item in first.output:
        if item.type == "function_call":
            call_id = item.call_id
            items.append({"type": "function_call_output", "call_id": call_id, "output": "content"})
    second = await client.responses.create(model="tiny", input=items, tools=[TOOL])
    assert second.output_text == "Hello there, friend"
    sent = backend.messages()
    assert [each["role"] for each in sent] == ["user", "assistant", "tool", "tool"]


async def test_errors_have_openais_form(client: openai.AsyncOpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        await client.responses.retrieve("resp_1")
    with pytest.raises(openai.NotFoundError):
        await client.responses.create(model="unknown", input="hi")
    with pytest.raises(openai.AuthenticationError):
        await client.with_options(api_key="sk-wrong").responses.create(model="tiny", input="hi")
    with pytest.raises(openai.BadRequestError) as refused:
        await client.responses.create(model="tiny", input="hi", previous_response_id="resp_1")
    assert refused.value.param == "previous_response_id"
