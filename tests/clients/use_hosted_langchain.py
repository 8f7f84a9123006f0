"""LangChain with tools that the gateway runs, MCP and web search, on the Responses API and, with
the argument `messages`, on the Messages API. The answers are scripted."""

import sys

import hosted
import shared
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI

MESSAGES = "messages" in sys.argv
USER = HumanMessage(shared.QUESTION)
COMMON = {"model": shared.MODEL, "api_key": shared.KEY, "max_retries": 0}
model: BaseChatModel
if MESSAGES:
    servers = [{"type": "url", "name": "shop", "url": hosted.MCP}]
    model = ChatAnthropic(
        base_url=shared.ORIGIN,
        max_tokens=500,
        mcp_servers=servers,
        model_kwargs={"extra_body": shared.BODY},
        **COMMON,
    )
    MCP = {"type": "mcp_toolset", "mcp_server_name": "shop"}
    SEARCH = {"type": "web_search_20250305", "name": "web_search"}
else:
    model = ChatOpenAI(
        base_url=shared.URL, use_responses_api=True, store=False, extra_body=shared.BODY, **COMMON
    )
    MCP = {
        "type": "mcp",
        "server_label": "shop",
        "server_url": hosted.MCP,
        "require_approval": "never",
    }
    SEARCH = {"type": "web_search"}


def both(what, tool, expected, *kinds):
    """A whole message and a streamed one, each of which goes on for another turn."""
    bound, answers = model.bind_tools([tool]), []
    for streamed in (False, True):
        if streamed:
            answer = None
            for chunk in bound.stream([USER]):
                answer = chunk if answer is None else answer + chunk
        else:
            answer = bound.invoke([USER])
        assert answer.text == expected, answer
        content = answer.content
        assert [block["type"] for block in content] == [*kinds, "text"], content
        more = bound.invoke([USER, answer, HumanMessage("And?")])
        assert more.text == hosted.LAST, more
        answers.append(answer)
    shared.done(what)
    return answers


if MESSAGES:
    for answer in both("MCP", MCP, hosted.FOUND, "mcp_tool_use", "mcp_tool_result"):
        assert hosted.RECORD in str(answer.content[1]["content"])
    search = ("server_tool_use", "web_search_tool_result")
else:
    for answer in both("MCP", MCP, hosted.FOUND, "mcp_list_tools", "mcp_call"):
        assert answer.content[1]["output"] == hosted.RECORD
    search = ("web_search_call",)
for answer in both("web search", SEARCH, hosted.CITED, *search):
    [note] = answer.content_blocks[-1]["annotations"]
    assert (note["type"], note["url"]) == ("citation", hosted.PAGE)
