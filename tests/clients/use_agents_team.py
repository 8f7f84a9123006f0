"""The OpenAI Agents SDK on both of its APIs, whole and streamed: a tool, its result, a handoff, an
answer, and what a guardrail of the gateway refuses. The gateway's backend answers by script."""

from __future__ import annotations

import asyncio
import os

import openai
import shared
from agents import (
    Agent,
    ModelSettings,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)
from agents.items import HandoffOutputItem, ToolCallOutputItem

set_tracing_disabled(True)
client = openai.AsyncOpenAI(base_url=shared.URL, api_key=shared.KEY, max_retries=0)
MODELS = {
    "responses": OpenAIResponsesModel(shared.MODEL, openai_client=client),
    "chat": OpenAIChatCompletionsModel(shared.MODEL, openai_client=client),
}
REFUSED = os.environ["REFUSED_WORD"]


@function_tool
def get_weather(city: str) -> str:
    """Return the weather in a city."""
    return f"Sunny in {city}."


def agents(model):
    """Return the one that calls, and the one to which it hands off."""
    settings = ModelSettings(store=False, include_usage=True)
    speaker = Agent("speaker", instructions="Speak.", model=model, model_settings=settings)
    caller = Agent(
        "caller",
        instructions="Look up the weather.",
        model=model,
        tools=[get_weather],
        handoffs=[speaker],
        model_settings=settings,
    )
    return caller, speaker


async def run(name, *, stream):
    caller, speaker = agents(MODELS[name])
    question = f"How is Oslo ({name}, {'streamed' if stream else 'whole'})?"
    if stream:
        streamed = Runner.run_streamed(caller, question)
        async for _ in streamed.stream_events():
            pass
        made, last, final = streamed.new_items, streamed.last_agent, streamed.final_output
        usage = streamed.context_wrapper.usage
    else:
        whole = await Runner.run(caller, question)
        made, last, final = whole.new_items, whole.last_agent, whole.final_output
        usage = whole.context_wrapper.usage
    outputs = [item.output for item in made if isinstance(item, ToolCallOutputItem)]
    assert outputs == ["Sunny in Oslo."], outputs
    assert any(isinstance(item, HandoffOutputItem) for item in made)
    assert last is speaker
    assert usage.requests == 3
    assert usage.output_tokens > 0
    shared.done(f"{question} {final}")


async def refused(name, *, stream):
    caller, _ = agents(MODELS[name])
    status = 200
    try:
        if stream:
            streamed = Runner.run_streamed(caller, REFUSED)
            async for _ in streamed.stream_events():
                pass
        else:
            await Runner.run(caller, REFUSED)
    except openai.APIStatusError as error:
        status = error.status_code
    assert 400 <= status < 500, status
    shared.done(f"refused: {name}")


async def main():
    for name in MODELS:
        for stream in (False, True):
            await run(name, stream=stream)
            await refused(name, stream=stream)


asyncio.run(main())
