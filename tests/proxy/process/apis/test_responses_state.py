"""Stored responses of two gateways over one Redis, through the OpenAI SDK and through outages."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import httpx
import openai
import pytest

from tests.support.servers.gateway_process import MASTER_KEY, Fleet, impatient, two_gateways
from tests.support.servers.http_client import bearer, http_client, openai_client
from tests.support.servers.script import Script, Scripts, call
from tests.support.servers.virtual_keys import make_key
from tests.support.waiting import until
from toolgate_core.wire import ChatPrompt

PATH = "/v1/responses"
TOOL: Any = {"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": False}
SLACK = 8.0
"""Seconds that a request may take on a busy machine while Redis hangs."""


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with two_gateways(tmp_path_factory.mktemp("state"), impatient) as made:
        made.backend.scripts = Scripts({"look": Script((call("look", {}),))})
        yield made


@pytest.fixture
async def clients(fleet: Fleet) -> AsyncIterator[list[openai.AsyncOpenAI]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(openai_client(url, MASTER_KEY)) for url in fleet.urls
        ]


def prompt(fleet: Fleet) -> list[str]:
    return [str(message["content"]) for message in fleet.backend.messages()]


async def test_sdk_uses_the_state_of_either_gateway(
    fleet: Fleet, clients: list[openai.AsyncOpenAI]
) -> None:
    one, other = clients
    first = await one.responses.create(model="tiny", input="look", tools=[TOOL])
    assert first.to_dict()["store"] is True
    found = await other.responses.retrieve(first.id)
    assert found.to_dict() == first.to_dict()
    item = first.output[0]
    assert item.type == "function_call"
    result: Any = {"type": "function_call_output", "call_id": item.call_id, "output": "seen"}
    async with other.responses.stream(
        model="tiny", input=[result], previous_response_id=first.id, tools=[TOOL]
    ) as stream:
        second = await stream.get_final_response()
    assert prompt(fleet) == ["look", "None", "seen"]
    assert second.previous_response_id == first.id
    assert (
        (await one.responses.retrieve(second.id)).output_text == second.output_text == "Hello there"
    )
    items = [each async for each in one.responses.input_items.list(second.id, limit=1, order="asc")]
    assert [each.type for each in items] == ["message", "function_call", "function_call_output"]
    with pytest.raises(openai.BadRequestError):
        await one.responses.cancel(first.id)
    await one.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        await other.responses.retrieve(first.id)
    with pytest.raises(openai.BadRequestError) as refused:
        await other.responses.create(model="tiny", input="x", previous_response_id=second.id)
    assert refused.value.code == "previous_response_not_found"


async def test_a_response_in_the_background_is_followed_at_either_gateway(
    fleet: Fleet, clients: list[openai.AsyncOpenAI]
) -> None:
    one, other = clients
    script = fleet.backend.scripts["wait"] = Script(("Hello there, friend",), hang_after=4)
    stream = await one.responses.create(model="tiny", input="wait", stream=True, background=True)
    sent = [await anext(stream)]
    assert sent[0].type == "response.created"
    name = sent[0].response.id
    followed = await other.responses.retrieve(name, stream=True)
    seen = [await anext(followed)]
    while seen[-1].type != "response.output_text.delta":
        seen.append(await anext(followed))
    assert (await other.responses.retrieve(name)).status == "in_progress"
    leaving = await other.responses.retrieve(name, stream=True, starting_after=1)
    assert (await anext(leaving)).sequence_number == 2
    await leaving.close()
    assert fleet.backend.running == 1
    script.hang_after = None
    sent += [event async for event in stream]
    seen += [event async for event in followed]
    assert sent[-1].type == "response.completed"
    assert [event.to_dict() for event in seen] == [event.to_dict() for event in sent]
    assert (await other.responses.retrieve(name)).to_dict() == sent[-1].response.to_dict()


async def test_a_restarted_gateway_has_the_responses(fleet: Fleet) -> None:
    headers = bearer(MASTER_KEY)
    async with http_client(fleet.urls[0], headers=headers, timeout=30) as http:
        body = (await http.post(PATH, json={"model": "tiny", "input": "a"})).json()
    fleet.gateways[0].stop()
    fleet.start(0)
    fleet.gateways[0].wait_until_alive()
    async with http_client(fleet.urls[0], headers=headers, timeout=30) as http:
        assert (await http.get(f"{PATH}/{body['id']}")).json() == body
        status = (await http.get("/toolgate/status")).json()
        assert status["responses"] == "fleet"


@dataclass
class Seen:
    """What one client of the load saw."""

    outcomes: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    wrong: list[str] = field(default_factory=list)


async def converse(
    clients: tuple[httpx.AsyncClient, httpx.AsyncClient], stranger: str, name: str, seen: Seen
) -> None:
    """Two turns over two gateways, and every way to read them, also with another key."""
    one, other = clients

    async def ask(http: httpx.AsyncClient, text: str, **params: Any) -> tuple[int, Any]:
        answer = await http.post(PATH, json={"model": "tiny", "input": text, **params})
        seen.slowest = max(seen.slowest, answer.elapsed.total_seconds())
        return answer.status_code, answer.json()

    status, first = await ask(one, f"first {name}")
    if status != 200 or first["output"][0]["content"][0]["text"] != "Hello there":
        seen.wrong.append(f"first: {status} {first}")
        return
    reason = first.get("toolgate", {}).get("not_stored")
    seen.outcomes[f"store: {reason}"] += 1
    if first["store"] != (reason is None):
        seen.wrong.append(f"store: {first}")
    found = await other.get(f"{PATH}/{first['id']}")
    seen.outcomes[f"get: {found.status_code}"] += 1
    if found.status_code == 200 and found.json()["output"] != first["output"]:
        seen.wrong.append(f"get: {found.text}")
    foreign = await one.get(f"{PATH}/{first['id']}", headers=bearer(stranger))
    seen.outcomes[f"foreign: {foreign.status_code}"] += 1
    status, second = await ask(other, f"second {name}", previous_response_id=first["id"])
    code = "200" if status == 200 else second["error"]["code"]
    seen.outcomes[f"continue: {code}"] += 1


async def test_outages_of_redis_cause_no_wrong_answer(fleet: Fleet) -> None:
    owner, _ = await make_key(fleet.redis.url, *fleet.urls)
    stranger, _ = await make_key(fleet.redis.url, *fleet.urls)
    fleet.backend.requests.clear()
    seen, done = Seen(), False

    async def client(number: int) -> None:
        async with AsyncExitStack() as stack:
            one, other = [
                await stack.enter_async_context(http_client(url, headers=bearer(owner), timeout=60))
                for url in fleet.urls[:: 1 if number % 2 else -1]
            ]
            at = 0
            while not done:
                at += 1
                await converse((one, other), stranger, f"{number}-{at}", seen)

    clients = asyncio.gather(*(client(number) for number in range(6)))

    async def again(outcome: str) -> None:
        """Until the clients see it again."""
        before = seen.outcomes[outcome]
        await until(lambda: seen.outcomes[outcome] >= before + 2)

    try:
        await again("continue: 200")
        fleet.redis.hang()
        await again("store: unavailable")
        await again("continue: responses_unavailable")
        fleet.redis.wake()
        await again("continue: 200")
        for _ in range(20):
            fleet.redis.lose("toolgate:{responses:")
            await asyncio.sleep(0.02)
        await again("continue: 200")
        async with http_client(fleet.urls[0], headers=bearer(owner), timeout=60) as http:
            kept = (await http.post(PATH, json={"model": "tiny", "input": "kept"})).json()
        fleet.redis.kill()
        await again("store: unavailable")
        await again("get: 503")
        fleet.redis.restart()
        await again("continue: 200")
    finally:
        done = True
        await clients
    assert seen.wrong == []
    async with http_client(fleet.urls[1], headers=bearer(owner), timeout=60) as http:
        assert (await http.get(f"{PATH}/{kept['id']}")).json() == kept
    assert seen.slowest < SLACK
    kinds = set(seen.outcomes)
    assert kinds >= {"store: None", "store: unavailable", "get: 200", "get: 404", "get: 503"}
    assert kinds - {"store: None", "store: unavailable"} <= {
        "get: 200", "get: 404", "get: 503", "foreign: 404", "foreign: 503", "continue: 200",
        "continue: previous_response_not_found", "continue: responses_unavailable",
    }  # fmt: skip
    continued = 0
    for request in fleet.backend.requests:
        assert isinstance(request.prompt, ChatPrompt)
        *earlier, last = (message["content"] for message in request.prompt.messages)
        if last.startswith("second"):
            name = last.removeprefix("second ")
            assert earlier == [f"first {name}", [{"type": "text", "text": "Hello there"}]]
            continued += 1
    assert continued == seen.outcomes["continue: 200"]


async def test_redis_shows_no_content(fleet: Fleet, clients: list[openai.AsyncOpenAI]) -> None:
    made = await clients[0].responses.create(model="tiny", input="a secret question")
    held = fleet.redis.everything()
    assert b"{responses:" in held
    for clear in (b"secret question", b"Hello there", made.id.encode(), made.id[5:].encode()):
        assert clear not in held
