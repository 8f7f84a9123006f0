"""The gateway asked through the SDK, and answers in one form."""

from tests.support.apis.read_responses import from_chunks

WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}


def asked(script="hi", **params):
    return {"model": "tiny", "messages": [{"role": "user", "content": script}], **params}


def signature(choice):
    message = choice["message"]
    calls = [part["function"] for part in message.get("tool_calls") or []]
    logprobs = [token["token"] for token in (choice.get("logprobs") or {}).get("content") or []]
    return (
        message.get("content") or "",
        message.get("reasoning_content"),
        [(part["name"], part["arguments"]) for part in calls],
        choice["finish_reason"],
        logprobs,
    )


async def whole(client, **params):
    response = (await client.chat.completions.create(**params)).model_dump()
    return {c["index"]: signature(c) for c in response["choices"]}, response["usage"]


async def streamed(client, **params):
    """The stream's answer, held to OpenAI's rules for chunks on the way."""
    stream = await client.chat.completions.create(
        **params, stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk.model_dump(exclude_unset=True) async for chunk in stream]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert {chunk["model"] for chunk in chunks} == {"tiny"}
    assert not any(chunk.get("usage") for chunk in chunks[:-1])
    assert {len(chunk["choices"]) for chunk in chunks[:-1]} == {1}
    assert chunks[-1]["choices"] == []
    made = from_chunks(chunks)
    return {each["index"]: signature(each) for each in made["choices"]}, made["usage"]
