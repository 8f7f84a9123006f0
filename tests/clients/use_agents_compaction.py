"""The OpenAI Agents SDK with a session that compacts itself: by its items, and by a response's
ID."""

import asyncio

import openai
import shared
from agents import (
    Agent,
    ModelSettings,
    OpenAIResponsesCompactionSession,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    set_tracing_disabled,
)

set_tracing_disabled(True)
client = openai.AsyncOpenAI(base_url=shared.URL, api_key=shared.KEY, max_retries=0)
compact = client.responses.compact


TRIES = 40
"""The summary of a random model may not end, which is an error."""


async def compact_ours(**asked):
    """The SDK takes the names of OpenAI's models only."""
    for seed in range(TRIES):
        body = {**asked, "model": shared.MODEL, "extra_body": {"seed": seed}}
        try:
            return await compact(**body)
        except openai.APIStatusError as error:
            if error.code != "compaction_failed":
                raise
    raise AssertionError("no summary")


client.responses.compact = compact_ours


async def turns(mode):
    session = OpenAIResponsesCompactionSession(
        "compacted",
        SQLiteSession("compacted"),
        client=client,
        compaction_mode=mode,
        should_trigger_compaction=lambda found: len(found["session_items"]) == 4,
    )
    model = OpenAIResponsesModel(shared.MODEL, openai_client=client)
    settings = ModelSettings(
        store=mode != "input",
        max_tokens=shared.MAX_TOKENS,
        reasoning={"effort": "none"},
        extra_body={"logit_bias": shared.BODY["logit_bias"], "seed": 7, "min_tokens": 8},
    )
    agent = Agent("talker", model=model, model_settings=settings)
    for question in ("First.", "Second."):
        await Runner.run(agent, question, session=session)
    kinds = [item.get("type") for item in await session.get_items()]
    assert kinds == ["message", "message", "compaction"], kinds
    result = await Runner.run(agent, "Third.", session=session)
    shared.done(f"{mode}: {result.final_output}")


async def main():
    await turns("input")
    await turns("previous_response_id")


asyncio.run(main())
