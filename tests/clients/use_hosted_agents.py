"""The tools of the OpenAI Agents SDK that the gateway runs: `HostedMCPTool`, with approvals and
without, and `WebSearchTool`. The answers are scripted, since a random model calls no tools."""

import asyncio

import hosted
import openai
import shared
from agents import (
    Agent,
    HostedMCPTool,
    ModelSettings,
    OpenAIResponsesModel,
    Runner,
    WebSearchTool,
    set_tracing_disabled,
)

set_tracing_disabled(True)
client = openai.AsyncOpenAI(base_url=shared.URL, api_key=shared.KEY, max_retries=0)
asked = []


def is_approved(request):
    """The first of two calls is approved."""
    asked.append(request.data.name)
    approve = len(asked) % 2 == 1
    return {"approve": approve} if approve else {"approve": False, "reason": hosted.REASON}


def shop(approval, **more):
    entry = {
        "type": "mcp",
        "server_label": "shop",
        "server_url": hosted.MCP,
        "require_approval": approval,
    }
    return HostedMCPTool(tool_config=entry, **more)


def agent(*tools):
    return Agent(
        "worker",
        model=OpenAIResponsesModel(shared.MODEL, openai_client=client),
        model_settings=ModelSettings(store=False, extra_body=shared.BODY),
        tools=[*tools],
    )


async def both(what, tool, expected):
    """The results of a run and of a streamed one, each of which goes on for another turn."""
    worker, results = agent(tool), []
    for streamed in (False, True):
        if streamed:
            result = Runner.run_streamed(worker, shared.QUESTION)
            async for _ in result.stream_events():
                pass
        else:
            result = await Runner.run(worker, shared.QUESTION)
        assert result.final_output == expected, result.final_output
        more = await Runner.run(worker, [*result.to_input_list(), hosted.user("And?")])
        assert more.final_output == hosted.LAST
        results.append(result)
    shared.done(what)
    return results


def items(result):
    raw = [getattr(item, "raw_item", None) for item in result.new_items]
    return {getattr(item, "type", ""): item for item in raw}


async def main():
    for result in await both("an MCP tool", shop("never"), hosted.FOUND):
        assert items(result)["mcp_call"].output == hosted.RECORD
        assert hosted.LOOKUP in [tool.name for tool in items(result)["mcp_list_tools"].tools]
    approving = shop("always", on_approval_request=is_approved)
    for result in await both("an MCP tool, with approvals", approving, hosted.FOUND):
        called = [
            each for each in result.new_items if getattr(each.raw_item, "type", "") == "mcp_call"
        ]
        assert [each.raw_item.output for each in called] == [hosted.RECORD]
    assert asked == [hosted.LOOKUP] * 4
    for result in await both("a web search", WebSearchTool(), hosted.CITED):
        assert items(result)["web_search_call"].action.query == hosted.QUERY
        [note] = items(result)["message"].content[0].annotations
        assert (note.type, note.url) == ("url_citation", hosted.PAGE)


asyncio.run(main())
