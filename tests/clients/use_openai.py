"""The OpenAI SDK, current version: sync, async, `.stream()`, `.parse()`."""

import asyncio

import openai
import shared

COMMON = {
    "model": shared.MODEL,
    "max_tokens": shared.MAX_TOKENS,
    "seed": 3,
    "extra_body": shared.BODY,
}
USER = [{"role": "user", "content": shared.QUESTION}]
NAMED = {"type": "function", "function": {"name": "set_tags"}}

# The SDK's helpers parse arguments themselves, and only of tools that are strict.
TOOLS = [
    {"type": "function", "function": {**tool["function"], "strict": True}} for tool in shared.TOOLS
]

client = openai.OpenAI(base_url=shared.URL, api_key=shared.KEY, max_retries=0)

for choice in ("auto", "required", "none", NAMED):
    asked = {**COMMON, "messages": USER, "tools": TOOLS, "tool_choice": choice}
    for more in ({}, {"parallel_tool_calls": False}, {"reasoning_effort": "high"}):
        answer = client.chat.completions.create(**asked, **more).choices[0]
        try:
            with client.chat.completions.stream(**asked, **more) as stream:
                final = stream.get_final_completion().choices[0]
        except openai.LengthFinishReasonError:  # the SDK's word for a cut answer
            assert answer.finish_reason == "length"
            continue
        assert final.message.content == answer.message.content
        calls = answer.message.tool_calls or []
        told = final.message.tool_calls or []
        assert [c.function.arguments for c in told] == [c.function.arguments for c in calls]
        for call in calls if answer.finish_reason != "length" else []:
            shared.check_call(call.function.name, call.function.arguments)
        assert calls or choice in ("auto", "none")
        assert len(calls) <= 1 or "parallel_tool_calls" not in more
    shared.done(f"tool_choice {choice}, whole and .stream()")

parsed = client.chat.completions.parse(
    **{**COMMON, "messages": USER}, response_format=shared.Weather
)
assert isinstance(parsed.choices[0].message.parsed, shared.Weather)
strict = openai.pydantic_function_tool(shared.Weather, name="get_weather")
parsed = client.chat.completions.parse(
    **{**COMMON, "messages": USER}, tools=[strict], tool_choice="required"
)
assert isinstance(parsed.choices[0].message.tool_calls[0].function.parsed_arguments, shared.Weather)
shared.done(".parse() of content and of calls")

first = client.chat.completions.create(
    **{**COMMON, "messages": USER}, tools=TOOLS, tool_choice=NAMED
).choices[0]
turn = [*USER, first.message]
turn += [
    {"role": "tool", "tool_call_id": call.id, "content": "done"}
    for call in first.message.tool_calls
]
second = client.chat.completions.create(**COMMON, messages=turn, tools=TOOLS)
assert second.choices[0].finish_reason
shared.done("a loop of two turns")


async def main():
    client = openai.AsyncOpenAI(base_url=shared.URL, api_key=shared.KEY, max_retries=0)
    asked = {**COMMON, "messages": USER, "tools": TOOLS, "tool_choice": "required"}
    answers = await asyncio.gather(*(client.chat.completions.create(**asked) for _ in range(4)))
    assert all(answer.choices[0].message.tool_calls for answer in answers)
    async with client.chat.completions.stream(**asked) as stream:
        events = [event.type async for event in stream]
    assert "tool_calls.function.arguments.delta" in events
    shared.done("async, and .stream()'s events")


asyncio.run(main())
