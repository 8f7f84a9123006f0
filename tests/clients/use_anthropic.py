"""The Anthropic SDK: create, `.stream()`, `.parse()`, count_tokens, the tool runner, a loop of two
turns with thinking, async."""

import asyncio
from typing import Literal

import anthropic
import shared

COMMON = {
    "model": shared.MODEL,
    "max_tokens": shared.MAX_TOKENS,
    "messages": [{"role": "user", "content": shared.QUESTION}],
    "extra_body": {**shared.BODY, "seed": 3},
}
AUTO, ANY, NONE = {"type": "auto"}, {"type": "any"}, {"type": "none"}
NAMED = {"type": "tool", "name": "set_tags"}
ADAPTIVE = {"thinking": {"type": "adaptive"}}
BUDGET = {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048}

client = anthropic.Anthropic(base_url=shared.ORIGIN, api_key=shared.KEY, max_retries=0)
ran = []


@anthropic.beta_tool
def get_weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> str:
    """Return the weather in a city."""
    ran.append("get_weather")
    return f"Sunny in {city}, in {unit}."


@anthropic.beta_tool(input_schema=shared.SCHEMAS["set_tags"])
def set_tags(tags: list[str]) -> str:
    """Set tags."""
    ran.append("set_tags")
    assert len(tags) == 2
    return "The tags are set."


def calls_of(message):
    return [block for block in message.content if block.type == "tool_use"]


def check(message, choice):
    calls, cut = calls_of(message), message.stop_reason == "max_tokens"
    for call in calls:
        assert call.id.startswith("toolu_")
        shared.check_call(call.name, call.input)
    assert calls or cut or choice["type"] in ("auto", "none")
    assert not calls or choice["type"] != "none"
    assert cut or (message.stop_reason == "tool_use") == bool(calls)
    assert len(calls) <= 1 or not choice.get("disable_parallel_tool_use")
    assert message.usage.output_tokens > 0


def said(message):
    """The content without ids and signatures, which are new each time."""
    return [block.model_dump(exclude={"id", "signature"}) for block in message.content]


def check_choices():
    """A budget of thinking, with which an answer takes longest, only beside one choice."""
    thought = 0
    for choice in (AUTO, ANY, NONE, NAMED, {**ANY, "disable_parallel_tool_use": True}):
        for more in ({}, ADAPTIVE, *([BUDGET] if choice == ANY else [])):
            asked = {**COMMON, "tools": shared.message_tools(), "tool_choice": choice, **more}
            answer = client.messages.create(**asked)
            check(answer, choice)
            kinds = [block.type for block in answer.content]
            assert more or "thinking" not in kinds
            thought += "thinking" in kinds
            with client.messages.stream(**asked) as stream:
                events = [event.type for event in stream]
                final = stream.get_final_message()
            assert events[-1] == "message_stop"
            check(final, choice)
            assert said(final) == said(answer)
            assert final.usage.output_tokens == answer.usage.output_tokens
            for block in (*answer.content, *final.content):
                assert block.type != "thinking" or block.signature
        shared.done(f"tool_choice {choice}, create and .stream()")
    assert thought


def check_cut():
    """A call that the limit cuts is not in the message."""
    asked = {**COMMON, "tools": shared.message_tools(), "tool_choice": ANY}
    seen = 0
    for limit in range(24, 240, 24):
        try:
            answer = client.messages.create(**{**asked, "max_tokens": limit})
        except anthropic.BadRequestError:  # shorter than the shortest call
            assert limit < 60
            continue
        check(answer, ANY)
        seen += answer.stop_reason == "max_tokens"
        with client.messages.stream(**{**asked, "max_tokens": limit}) as stream:
            assert said(stream.get_final_message()) == said(answer)
    assert seen
    shared.done("calls cut by max_tokens")


def check_eager():
    """Tools with early input stream it as it is generated. What the gateway receives at once, it
    sends at once, so a short input may have one part on busy cores."""
    tools = shared.message_tools(eager_input_streaming=True)

    def is_early():
        with client.messages.stream(**COMMON, tools=tools, tool_choice=NAMED) as stream:
            parts = [event.partial_json for event in stream if event.type == "input_json"]
            final = stream.get_final_message()
        return final.stop_reason == "max_tokens" or len(parts) > 1

    assert any(is_early() for _ in range(40))
    shared.done("input streamed early")


def check_parsed():
    parsed = client.messages.parse(**COMMON, output_format=shared.Weather)
    assert isinstance(parsed.parsed_output, shared.Weather)
    shared.done(".parse()")


def check_count():
    asked = {name: COMMON[name] for name in ("model", "messages")}
    asked |= {"tools": shared.message_tools(), "tool_choice": ANY, "system": "Be brief."}
    counted = client.messages.count_tokens(**asked).input_tokens
    usage = client.messages.create(**COMMON | asked).usage
    assert usage.input_tokens + (usage.cache_read_input_tokens or 0) == counted
    shared.done("count_tokens")


def check_loop():
    """The thinking blocks come back with their signatures."""
    asked = {**COMMON, **BUDGET, "tools": shared.message_tools()}
    first = client.messages.create(**asked, tool_choice=NAMED)
    turns = [*COMMON["messages"], {"role": "assistant", "content": first.content}]
    results = [
        {"type": "tool_result", "tool_use_id": call.id, "content": "done"}
        for call in calls_of(first)
    ]
    turns.append({"role": "user", "content": results or "And now?"})
    second = client.messages.create(**asked | {"messages": turns}, tool_choice=AUTO)
    check(second, AUTO)
    shared.done("a loop of two turns, with thinking")


def run_tools(**more):
    """The first request carries `thread`, which is refused; the runner goes on without it. The
    choice forces calls, so that only `max_iterations` ends the loop."""
    ran.clear()
    runner = client.beta.messages.tool_runner(
        **COMMON, tools=[get_weather, set_tags], tool_choice=ANY, max_iterations=2, **more
    )
    messages = [_final(each) for each in runner]
    for message in messages:
        check(message, ANY)
    assert messages[0].stop_reason == "max_tokens" or len(messages) == 2
    first = [call.name for call in calls_of(messages[0])]
    assert messages[0].stop_reason == "max_tokens" or ran[: len(first)] == first
    shared.done(f"the tool runner, {more}")


def _final(turn):
    return turn.get_final_message() if hasattr(turn, "get_final_message") else turn


def check_errors():
    stranger = client.with_options(api_key="sk-wrong")
    bad = {"tools": [{"name": "a", "input_schema": {"type": 5}}]}
    for expected, asking, more in (
        (anthropic.AuthenticationError, stranger, {}),
        (anthropic.NotFoundError, client, {"model": "unheard-of"}),
        (anthropic.BadRequestError, client, bad),
    ):
        raised = None
        try:
            asking.messages.create(**COMMON | more)
        except anthropic.APIStatusError as error:
            raised = error
        assert isinstance(raised, expected)
        assert raised.body["type"] == "error"
        assert raised.request_id
    shared.done("errors")


async def main():
    client = anthropic.AsyncAnthropic(base_url=shared.ORIGIN, auth_token=shared.KEY, max_retries=0)
    asked = {**COMMON, "tools": shared.message_tools(), "tool_choice": ANY}
    answers = await asyncio.gather(*(client.messages.create(**asked) for _ in range(4)))
    for answer in answers:
        check(answer, ANY)
    async with client.messages.stream(**asked) as stream:
        text = [event.type async for event in stream]
        check(await stream.get_final_message(), ANY)
    assert text[0] == "message_start"
    models = [model.id async for model in client.models.list()]
    assert shared.MODEL in models
    shared.done("async, and models")


check_choices()
check_cut()
check_eager()
check_parsed()
check_count()
check_loop()
run_tools()
run_tools(stream=True)
check_errors()
asyncio.run(main())
