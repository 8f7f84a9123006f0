"""The OpenAI SDK's Responses API: sync, async, `.stream()`, `.parse()`, a loop of two turns, stored
responses."""

import asyncio

import openai
import shared

COMMON = {
    "model": shared.MODEL,
    "max_output_tokens": shared.MAX_TOKENS,
    "extra_body": {**shared.BODY, "seed": 3},
    "store": False,
}
TOOLS = shared.response_tools(strict=True)
NAMED = {"type": "function", "name": "set_tags"}

client = openai.OpenAI(base_url=shared.URL, api_key=shared.KEY, max_retries=0)


def calls_of(response):
    return [item for item in response.output if item.type == "function_call"]


def check(response, choice):
    calls = calls_of(response)
    for call in calls if response.status == "completed" else []:
        assert call.status == "completed"
        shared.check_call(call.name, call.arguments)
    assert calls or choice in ("auto", "none")
    assert not calls or choice != "none"


for choice in ("auto", "required", "none", NAMED):
    asked = {**COMMON, "input": shared.QUESTION, "tools": TOOLS, "tool_choice": choice}
    for more in ({}, {"parallel_tool_calls": False}, {"reasoning": {"effort": "high"}}):
        answer = client.responses.create(**asked, **more)
        check(answer, choice)
        assert len(calls_of(answer)) <= 1 or "parallel_tool_calls" not in more
        with client.responses.stream(**asked, **more) as stream:
            done = [each.item for each in stream if each.type == "response.output_item.done"]
            final = stream.get_final_response()
        assert final.output_text == answer.output_text
        told = [(call.name, call.arguments) for call in calls_of(final)]
        assert told == [(call.name, call.arguments) for call in calls_of(answer)]
        if final.status == "completed":
            assert [item.id for item in done] == [item.id for item in final.output]
    shared.done(f"tool_choice {choice}, whole and .stream()")

parsed = client.responses.parse(**COMMON, input=shared.QUESTION, text_format=shared.Weather)
assert isinstance(parsed.output_parsed, shared.Weather)
strict = openai.pydantic_function_tool(shared.Weather, name="get_weather")["function"]
parsed = client.responses.parse(
    **COMMON, input=shared.QUESTION, tools=[{"type": "function", **strict}], tool_choice="required"
)
shared.Weather.model_validate(calls_of(parsed)[0].parsed_arguments)
shared.done(".parse() of content and of calls")

first = client.responses.create(
    **COMMON,
    input=shared.QUESTION,
    tools=TOOLS,
    tool_choice=NAMED,
    include=["reasoning.encrypted_content"],
)
items = [{"role": "user", "content": shared.QUESTION}, *first.output]
items += [
    {"type": "function_call_output", "call_id": call.call_id, "output": "done"}
    for call in calls_of(first)
]
second = client.responses.create(**COMMON, input=items, tools=TOOLS)
assert second.status in ("completed", "incomplete")
shared.done("a loop of two turns")

stored = {**COMMON, "store": True}
first = client.responses.create(
    **stored, input=shared.QUESTION, tools=TOOLS, tool_choice=NAMED, parallel_tool_calls=False
)
results = [
    {"type": "function_call_output", "call_id": call.call_id, "output": "done"}
    for call in calls_of(first)
]
second = client.responses.create(
    **stored,
    previous_response_id=first.id,
    input=results or "And now?",
    tools=TOOLS,
    tool_choice="none",
)
assert client.responses.retrieve(first.id) == first
assert client.responses.retrieve(second.id).previous_response_id == first.id
kinds = [item.type for item in client.responses.input_items.list(second.id, order="asc", limit=1)]
assert kinds[0] == "message"
assert kinds[-1] == ("function_call_output" if results else "message")
for response in (first, second):
    client.responses.delete(response.id)
try:
    client.responses.retrieve(first.id)
except openai.NotFoundError:
    shared.done("stored responses: continued, retrieved, listed, deleted")
else:
    raise AssertionError("a deleted response is retrieved")


async def main():
    client = openai.AsyncOpenAI(base_url=shared.URL, api_key=shared.KEY, max_retries=0)
    asked = {**COMMON, "input": shared.QUESTION, "tools": TOOLS, "tool_choice": "required"}
    answers = await asyncio.gather(*(client.responses.create(**asked) for _ in range(4)))
    assert all(calls_of(answer) for answer in answers)
    async with client.responses.stream(**asked) as stream:
        events = [event.type async for event in stream]
    assert "response.function_call_arguments.delta" in events
    shared.done("async, and .stream()'s events")


asyncio.run(main())
