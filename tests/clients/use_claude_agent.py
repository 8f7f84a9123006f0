"""The Claude Agent SDK, with the Claude Code that its package contains: a search for tools, a tool
of the program, a loop of three turns, streaming, a question of permission, a session of two
questions."""

import asyncio
from typing import Any

import shared
from claude_agent_sdk import (
    AssistantMessage,
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    ResultMessage,
    StreamEvent,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    create_sdk_mcp_server,
    tool,
)

called = []
asked = []


@tool("set_tags", "Set two short tags.", shared.SCHEMAS["set_tags"])
async def set_tags(given: dict[str, Any]) -> dict[str, Any]:
    called.append(given)
    return {"content": [{"type": "text", "text": "The tags are set."}]}


async def permit(name, given, _):
    asked.append(name)
    if name == "Bash":
        return PermissionResultDeny(message="Not here.")
    return PermissionResultAllow(updated_input=given)


OPTIONS = ClaudeAgentOptions(
    model=shared.MODEL,
    mcp_servers={"own": create_sdk_mcp_server("own", tools=[set_tags])},
    can_use_tool=permit,
    include_partial_messages=True,
    setting_sources=[],
)


async def turn(client, question):
    """The blocks of the model's messages, the types of the stream's events and the result."""
    await client.query(question)
    blocks = []
    events = []
    result = None
    async for message in client.receive_response():
        if isinstance(message, AssistantMessage):
            blocks += message.content
        elif isinstance(message, StreamEvent):
            events.append(message.event["type"])
        elif isinstance(message, ResultMessage):
            result = message
    return blocks, events, result


def kinds(blocks):
    return [type(block) for block in blocks]


async def main():
    async with ClaudeSDKClient(OPTIONS) as client:
        blocks, events, result = await turn(client, "Set tags.")
        assert kinds(blocks) == [
            ThinkingBlock, TextBlock, ToolUseBlock, ToolUseBlock, TextBlock
        ], blocks  # fmt: skip
        assert blocks[0].signature
        assert called == [{"tags": ["a", "b"]}]
        assert {"message_start", "content_block_delta", "message_stop"} <= {*events}
        assert (result.is_error, result.result) == (False, "All is set.")
        shared.done("a search, a tool of the program, a loop of three turns, thinking, streaming")

        blocks, _, result = await turn(client, "Run a command.")
        assert kinds(blocks) == [ToolUseBlock, TextBlock], blocks
        assert asked == ["mcp__own__set_tags", "Bash"]
        assert result.result == "It was denied."
        shared.done("a question of permission, in the same session")


asyncio.run(main())
