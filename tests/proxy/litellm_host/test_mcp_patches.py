"""Texts of calls of MCP servers that fail: our own do not have the message of the exception."""

from __future__ import annotations

from typing import Any

import pytest
from litellm.experimental_mcp_client.client import MCPClient

from toolgate_proxy.litellm_host.mcp import OF_SERVERS, noted_failures

ADDRESS = "http://inner.example"


def text_of(error: Exception) -> str:
    result: Any = MCPClient.error_tool_result(error)
    return str(result.content[0].text)


def test_only_our_own_calls_hide_the_message() -> None:
    """Those of LiteLLM's own routes, and of its fallbacks in the same task, have it."""
    error = RuntimeError(ADDRESS)
    with noted_failures():
        assert ADDRESS not in text_of(error)
    assert ADDRESS in text_of(error)


@pytest.mark.parametrize("name", OF_SERVERS)
def test_an_error_of_the_server_is_shown(name: str) -> None:
    with noted_failures():
        assert "No such record." in text_of(type(name, (Exception,), {})("No such record."))
