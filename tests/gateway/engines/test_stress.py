"""Many requests at once, some cancelled: no leak, no crash, and every finished answer is valid."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import httpx
import openai
import pytest

from tests import tools
from tests.gateway.conftest import status
from tests.gateway.requests import answers
from tests.gateway.servers import Backend, Gateway
from tests.support.effort import repeats

REQUESTS, CONCURRENCY, CANCELLED = repeats(120, nightly=200), 32, 0.3


def mixed(rng: random.Random, common: dict[str, Any]) -> dict[str, Any]:
    offered = rng.sample(tools.ALL, rng.randint(1, len(tools.ALL)))
    choice: Any = rng.choice(["none", "auto", "required", "named"])
    if choice == "named":
        choice = {"type": "function", "function": {"name": offered[0]["function"]["name"]}}
    return {
        **common,
        "messages": [{"role": "user", "content": f"Do it {rng.random()}"}],
        "tools": offered,
        "tool_choice": choice,
        "parallel_tool_calls": rng.random() < 0.5,
        "reasoning_effort": rng.choice(["none", "high"]),
        "n": rng.choice([1, 1, 2]),
        "seed": rng.randrange(10**6),
        "max_tokens": rng.choice([60, 120, 300]),
        "stream": rng.random() < 0.5,
    }


async def one(client: openai.AsyncOpenAI, request: dict[str, Any], hang_up: float | None) -> int:
    """Return the number of checked answers, 0 for a cancelled request."""

    async def run() -> list[answers.ChoiceOutput]:
        if not request["stream"]:
            return answers.from_whole(await client.chat.completions.create(**request))
        stream = await client.chat.completions.create(**request)
        return answers.from_chunks([chunk async for chunk in stream])

    try:
        found = await asyncio.wait_for(run(), hang_up)
    except TimeoutError:
        return 0
    for answer in found:
        answers.check(answer, request["tools"])
    return len(found)


@pytest.mark.slow
async def test_mixed_requests_with_random_cancellation_are_valid_and_leave_nothing_behind(
    async_client: openai.AsyncOpenAI, backend: httpx.Client, common: dict[str, Any]
) -> None:
    rng = random.Random(4)
    slots = asyncio.Semaphore(CONCURRENCY)

    async def limited(request: dict[str, Any], hang_up: float | None) -> int:
        async with slots:
            return await one(async_client, request, hang_up)

    jobs = [
        limited(mixed(rng, common), rng.uniform(0.05, 1.5) if rng.random() < CANCELLED else None)
        for _ in range(REQUESTS)
    ]
    checked = await asyncio.gather(*jobs)
    assert sum(1 for count in checked if count) > REQUESTS * (1 - CANCELLED) / 2
    await asyncio.sleep(1)
    left = status(backend)
    assert (left.running, left.sequences, left.pinned_grammars) == (0, 0, 0)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_stops_its_generation(
    gateway: Gateway, target: Backend, backend: httpx.Client, model: str, stream: bool
) -> None:
    request = {"model": model, "max_tokens": 6000, "ignore_eos": True, "stream": stream}
    request["messages"] = [{"role": "user", "content": "Go on and on."}]
    before = generated(target)
    waiting = asyncio.create_task(begin_and_wait(gateway, request))
    await until(lambda: generated(target) > before)
    waiting.cancel()
    await until(lambda: backend.get("/status").json()["running"] == 0)
    assert generated(target) - before < 6000


async def begin_and_wait(gateway: Gateway, request: dict[str, Any]) -> None:
    """Without the SDK, whose reading of a fast stream would keep the test's loop busy."""
    headers = {"authorization": f"Bearer {gateway.key}"}
    url = f"{gateway.url}/v1/chat/completions"
    async with (
        httpx.AsyncClient(headers=headers, timeout=60, trust_env=False) as client,
        client.stream("POST", url, json=request) as response,
    ):
        await anext(response.aiter_bytes())
        await asyncio.Event().wait()


def generated(target: Backend) -> float:
    """Return vLLM's count of the tokens that it has generated."""
    metrics = httpx.get(f"{target.url}/metrics", timeout=60, trust_env=False).text
    lines = metrics.splitlines()
    counts = [line for line in lines if line.startswith("vllm:generation_tokens_total")]
    assert counts
    return sum(float(line.rpartition(" ")[2]) for line in counts)


async def until(holds: Any) -> None:
    give_up = time.monotonic() + 60
    while not await asyncio.to_thread(holds):
        assert time.monotonic() < give_up
        await asyncio.sleep(0.05)
