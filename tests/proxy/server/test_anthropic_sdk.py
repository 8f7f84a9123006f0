"""The classes of Anthropic's SDK run the tools that Anthropic defines, with our models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import pytest
from anthropic.lib.tools import BetaAsyncAbstractMemoryTool
from anthropic.tools.memory import BetaAsyncLocalFilesystemMemoryTool

from tests.support.litellm.own_route import MASTER, Gateway
from tests.support.servers.loopback import served
from tests.support.servers.script import Script, call
from toolgate_proxy.app import Gateway as App

NOTE = "/memories/tea.md"
COMMANDS: tuple[dict[str, Any], ...] = (
    {"command": "view", "path": "/memories"},
    {"command": "create", "path": NOTE, "file_text": "Green tea.\n"},
    {"command": "str_replace", "path": NOTE, "old_str": "Green", "new_str": "Black"},
    {"command": "insert", "path": NOTE, "insert_line": 0, "insert_text": "Likes:\n"},
    {"command": "rename", "old_path": NOTE, "new_path": "/memories/drinks.md"},
)


async def runs(url: str, tool: BetaAsyncAbstractMemoryTool, *, stream: bool) -> Any:
    client = anthropic.AsyncAnthropic(base_url=url, auth_token=MASTER, max_retries=0)
    runner = client.beta.messages.tool_runner(
        model="tiny",
        max_tokens=500,
        messages=[{"role": "user", "content": "I like black tea."}],
        tools=[tool],
        stream=stream,
    )
    return await runner.until_done()


@pytest.mark.parametrize("stream", [True, False])
async def test_the_memory_tool_of_the_sdk(gateway: Gateway, tmp_path: Path, stream: bool) -> None:
    gateway.backend.turns += [Script((call("memory", each),)) for each in COMMANDS]
    gateway.backend.turns.append(Script(("I will remember.",)))
    tool = BetaAsyncLocalFilesystemMemoryTool(base_path=str(tmp_path))
    async with served(App(gateway.host)) as url:
        last = await runs(url, tool, stream=stream)
    assert last.content[0].text == "I will remember."
    assert (tmp_path / "memories" / "drinks.md").read_text() == "Likes:\nBlack tea.\n"
    results = [each for each in gateway.backend.messages() if each["role"] == "tool"]
    assert len(results) == len(COMMANDS)
    assert not any("Error" in str(each["content"]) for each in results)
