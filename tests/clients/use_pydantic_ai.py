"""pydantic-ai: outputs by tool and by schema, tools, streams, a loop of two turns.

With the argument `responses`, on the Responses API; with `messages`, on the Messages API. The cases
run at once.
"""

import asyncio
import sys

import shared
from pydantic_ai import Agent, NativeOutput, ToolDefinition, ToolOutput
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import ModelRequest, ToolCallPart, ToolReturnPart
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

API = sys.argv[1] if len(sys.argv) > 1 else "chat"
model: Model
if API == "messages":
    at = AnthropicProvider(base_url=shared.ORIGIN, api_key=shared.KEY)
    # The library knows of Anthropic's models only that they have structured outputs.
    profile = {"supports_json_schema_output": True}
    model = AnthropicModel(shared.MODEL, provider=at, profile=profile)
else:
    model = (OpenAIResponsesModel if API == "responses" else OpenAIChatModel)(
        shared.MODEL, provider=OpenAIProvider(base_url=shared.URL, api_key=shared.KEY)
    )
SETTINGS = {"max_tokens": shared.MAX_TOKENS, "extra_body": {**shared.BODY, "seed": 9}}
if API == "responses":
    SETTINGS["openai_store"] = False
REASONING = {
    "chat": {"openai_reasoning_effort": "high"},
    "responses": {"openai_reasoning_effort": "high"},
    "messages": {
        "anthropic_thinking": {"type": "enabled", "budget_tokens": 1024},
        "max_tokens": 2048,
    },
}[API]
DEFINITIONS = [
    ToolDefinition(name=name, description=name, parameters_json_schema=schema)
    for name, schema in shared.SCHEMAS.items()
]
USER = ModelRequest.user_text_prompt(shared.QUESTION)


async def check_output(output):
    agent = Agent(model, output_type=output, model_settings=SETTINGS)
    assert isinstance((await agent.run(shared.QUESTION)).output, shared.Weather)
    async with agent.run_stream(shared.QUESTION) as run:
        assert isinstance(await run.get_output(), shared.Weather)
    shared.done(f"{type(output).__name__}, run and run_stream")


async def check_choice(choice, **more):
    settings = {**SETTINGS, "tool_choice": choice, "parallel_tool_calls": False, **more}
    offered = ModelRequestParameters(function_tools=DEFINITIONS)
    whole = await model_request(
        model, [USER], model_settings=settings, model_request_parameters=offered
    )
    async with model_request_stream(
        model, [USER], model_settings=settings, model_request_parameters=offered
    ) as stream:
        async for _ in stream:
            pass
        streamed = stream.get()
    for answer in (whole, streamed):
        calls = [part for part in answer.parts if isinstance(part, ToolCallPart)]
        assert len(calls) <= 1
        assert calls or choice in ("auto", "none")
        assert not calls or choice != "none"
        for call in calls if answer.finish_reason != "length" else []:
            shared.check_call(call.tool_name, call.args_as_dict())
    shared.done(f"tool_choice {choice} {more}")


async def check_loop(**more):
    settings = {**SETTINGS, "tool_choice": ["set_tags"], **more}
    if "anthropic_thinking" in more:  # the library forces no calls then: Anthropic's API does not
        del settings["tool_choice"]
        forced = {"tool_choice": {"type": "tool", "name": "set_tags"}}
        settings["extra_body"] = {**SETTINGS["extra_body"], **forced}
    first = await model_request(
        model,
        [USER],
        model_settings=settings,
        model_request_parameters=ModelRequestParameters(function_tools=DEFINITIONS),
    )
    results = [
        ToolReturnPart(part.tool_name, "done", part.tool_call_id)
        for part in first.parts
        if isinstance(part, ToolCallPart)
    ]
    assert results or first.finish_reason == "length"
    second = await model_request(
        model,
        [USER, first, ModelRequest(parts=results)],
        model_settings={**SETTINGS, **more},
        model_request_parameters=ModelRequestParameters(function_tools=DEFINITIONS),
    )
    assert second.finish_reason
    shared.done(f"a loop of two turns {more}")


async def main():
    await asyncio.gather(
        *map(check_output, (ToolOutput(shared.Weather), NativeOutput(shared.Weather))),
        *map(check_choice, ("auto", "required", "none", ["set_tags"])),
        check_choice("auto", **REASONING),
        check_loop(),
        check_loop(**REASONING),
    )


asyncio.run(main())
