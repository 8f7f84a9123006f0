"""The OpenAI Agents SDK on the Responses API: a tool, a deferred one, a handoff, streams, a session
of the client, a stored response."""

import asyncio
import json
from typing import Literal

import openai
import shared
from agents import (
    Agent,
    ModelSettings,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    ToolSearchTool,
    function_tool,
    set_tracing_disabled,
)
from agents import items as kinds

set_tracing_disabled(True)
client = openai.AsyncOpenAI(base_url=shared.URL, api_key=shared.KEY, max_retries=0)
model = OpenAIResponsesModel(shared.MODEL, openai_client=client)
called = []


def settings(choice, *, store=False, **more):
    return ModelSettings(
        tool_choice=choice,
        max_tokens=shared.MAX_TOKENS,
        store=store,
        extra_body={**shared.BODY, "seed": 7},
        **more,
    )


@function_tool
def get_weather(city: str, unit: Literal["celsius", "fahrenheit"]) -> str:
    """Return the weather in a city."""
    called.append("get_weather")
    return f"Sunny in {city}, in {unit}."


@function_tool
def set_tags(tags: list[str]) -> str:
    """Set tags."""
    called.append("set_tags")
    return f"{len(tags)} tags are set."


@function_tool(defer_loading=True)
def find_record(name: str) -> str:
    """Find a record."""
    called.append("find_record")
    return f"A record of {name}."


def items(result, kind):
    return [item for item in result.new_items if isinstance(item, kind)]


async def loop_with_tools():
    """The first turn must call; the SDK then sets the choice back to auto."""
    agent = Agent(
        "caller",
        instructions="Call a tool.",
        model=model,
        tools=[get_weather, set_tags],
        model_settings=settings("required", parallel_tool_calls=False),
        tool_use_behavior="stop_on_first_tool",
    )
    result = await Runner.run(agent, shared.QUESTION)
    [call], [output] = items(result, kinds.ToolCallItem), items(result, kinds.ToolCallOutputItem)
    json.loads(call.raw_item.arguments)
    assert output.output == result.final_output
    assert called
    shared.done("a tool is run")

    streamed = Runner.run_streamed(agent, shared.QUESTION)
    raw = [event.data.type async for event in streamed.stream_events() if "raw" in event.type]
    assert "response.function_call_arguments.delta" in raw
    assert raw[-1] == "response.completed"
    assert items(streamed, kinds.ToolCallOutputItem)
    shared.done("a tool is run in a stream")


async def deferred_tool():
    """The gateway searches; what it finds can be called."""
    agent = Agent(
        "searcher",
        model=model,
        tools=[ToolSearchTool(), find_record],
        model_settings=settings("required", parallel_tool_calls=False),
        tool_use_behavior="stop_on_first_tool",
    )
    result = await Runner.run(agent, shared.QUESTION)
    assert items(result, kinds.ToolSearchCallItem)
    assert items(result, kinds.ToolSearchOutputItem)
    calls = items(result, kinds.ToolCallItem)
    assert all(call.raw_item.name == "find_record" for call in calls)
    assert bool(calls) == ("find_record" in called)
    shared.done("deferred tools are searched")


async def handoff():
    """With the handoff as the only tool, a required call is the handoff."""
    speaker = Agent("speaker", instructions="Speak.", model=model, model_settings=settings("none"))
    clerk = Agent(
        "clerk",
        instructions="Hand off.",
        model=model,
        handoffs=[speaker],
        model_settings=settings("required", parallel_tool_calls=False),
    )
    result = await Runner.run(clerk, shared.QUESTION)
    assert items(result, kinds.HandoffOutputItem)
    assert result.last_agent is speaker
    assert isinstance(result.final_output, str)
    streamed = Runner.run_streamed(clerk, shared.QUESTION)
    agents = [e.new_agent.name async for e in streamed.stream_events() if "agent" in e.type]
    assert agents == ["clerk", "speaker"]
    shared.done("a handoff, run and run_streamed")


async def session():
    """The second run sends the items of the first: reasoning, call, result."""
    memory = SQLiteSession("memory")
    tags = Agent(
        "tagger",
        model=model,
        tools=[set_tags],
        model_settings=settings("set_tags", reasoning={"effort": "high"}),
        tool_use_behavior="stop_on_first_tool",
    )
    speaker = Agent("speaker", model=model, tools=[set_tags], model_settings=settings("none"))
    await Runner.run(tags, shared.QUESTION, session=memory)
    sent = [item.get("type") for item in await memory.get_items()]
    assert "function_call" in sent
    assert sent[-1] == "function_call_output"
    result = await Runner.run(speaker, "And now?", session=memory)
    assert isinstance(result.final_output, str)
    found = await memory.get_items()
    assert len(found) > len(sent) + 1
    assert await memory.pop_item() == found[-1]
    assert await memory.get_items() == found[:-1]
    await memory.clear_session()
    assert await memory.get_items() == []
    shared.done("two runs of a session")


async def continued():
    """The second run sends its own input, and the first response's ID."""
    speaker = Agent("speaker", model=model, model_settings=settings("none", store=True))
    first = await Runner.run(speaker, shared.QUESTION)
    second = await Runner.run(speaker, "And?", previous_response_id=first.last_response_id)
    tokens = [run.context_wrapper.usage.input_tokens for run in (first, second)]
    assert tokens[0] < tokens[1]
    shared.done("a stored response is continued")


async def output_type():
    agent = Agent(
        "writer", model=model, output_type=shared.Weather, model_settings=settings("auto")
    )
    result = await Runner.run(agent, shared.QUESTION)
    assert isinstance(result.final_output, shared.Weather)
    shared.done("output_type")


async def main():
    steps = (loop_with_tools, deferred_tool, handoff, session, continued, output_type)
    await asyncio.gather(*(step() for step in steps))


asyncio.run(main())
