"""Whether a call of an MCP server failed, which LiteLLM's text of the result does not say, and no
messages of exceptions but the server's own errors: others have addresses. Calls of LiteLLM's own
routes are as without Toolgate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from litellm.experimental_mcp_client.client import MCPClient
from litellm.responses.mcp.litellm_proxy_mcp_handler import LiteLLM_Proxy_MCP_Handler as Handler

OF_SERVERS = ("MCPError", "McpError")
"""Errors of the protocol, in mcp 2 and mcp 1."""
_failures: ContextVar[list[str]] = ContextVar("toolgate_mcp_failures")
_text_of = Handler._parse_mcp_result
_result_of = MCPClient.error_tool_result


class ToolCallFailed(Exception):
    """Stands for an exception whose message is for the log. The text of a result begins with the
    name of this class."""


def _noting(result: Any) -> str:
    text: str = _text_of(result)
    noted = _failures.get(None)
    # mcp 1 has `isError`, mcp 2 `is_error`.
    if noted is not None and (
        getattr(result, "is_error", None) or getattr(result, "isError", None)
    ):
        noted.append(text)
    return text


def _without_message(exc: Exception) -> Any:
    is_ours = _failures.get(None) is not None
    hidden = is_ours and type(exc).__name__ not in OF_SERVERS
    return _result_of(ToolCallFailed() if hidden else exc)


Handler._parse_mcp_result = staticmethod(_noting)
MCPClient.error_tool_result = staticmethod(_without_message)


@contextmanager
def noted_failures() -> Iterator[list[str]]:
    """Provide a list that gets the texts of the failed calls that this task makes meanwhile."""
    noted: list[str] = []
    token = _failures.set(noted)
    try:
        yield noted
    finally:
        _failures.reset(token)
