"""Run each tool as soon as its call is validated, while the model writes the next call.

Usage: python examples/early_tools.py http://127.0.0.1:4000/v1 KEY MODEL [SECONDS]

SECONDS: duration of a tool; 1 by default.
"""

import asyncio
import json
import sys
import time
from typing import Any

from openai import AsyncOpenAI

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOLS: Any = [{"type": "function", "function": {"name": "get_weather", "parameters": CITY}}]
ASKED: Any = {
    "messages": [{"role": "user", "content": "What's the weather in Oslo, Bern, Rome and Lima?"}],
    "tools": TOOLS,
    "stream": True,
    "stream_options": {"toolgate_call_done": True},
}


async def get_weather(city: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return f"Sunny in {city}"


async def turn(client: AsyncOpenAI, model: str, seconds: float, *, early: bool) -> list[str]:
    """Run the tools of one turn, one after the other: during the stream or after it."""
    arguments: dict[int, str] = {}
    ready: asyncio.Queue[int | None] = asyncio.Queue()

    async def run_tools() -> list[str]:
        return [
            await get_weather(**json.loads(arguments[at]), seconds=seconds)
            async for at in each(ready)
        ]

    running = asyncio.create_task(run_tools())
    async for chunk in await client.chat.completions.create(model=model, **ASKED):
        for choice in chunk.choices:
            for part in choice.delta.tool_calls or []:
                arguments[part.index] = arguments.get(part.index, "") + part.function.arguments
                if early and getattr(choice, "toolgate", None) == {"call_done": True}:
                    ready.put_nowait(part.index)
    for at in [*(() if early else arguments), None]:
        ready.put_nowait(at)
    return await running


async def each(queue: asyncio.Queue[int | None]) -> Any:
    while (value := await queue.get()) is not None:
        yield value


async def main(url: str, key: str, model: str, seconds: str = "1") -> None:
    client = AsyncOpenAI(base_url=url, api_key=key)
    for early in (False, True):
        started = time.monotonic()
        results = await turn(client, model, float(seconds), early=early)
        when = "during" if early else "after"
        print(f"{len(results)} tools {when} the stream: {time.monotonic() - started:.1f} s")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
