"""Whether a call of an MCP server failed, which LiteLLM's text of the result does not say, and no
messages of exceptions but the server's own errors: others have addresses."""

from __future__ import annotations

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
    return _result_of(exc if type(exc).__name__ in OF_SERVERS else ToolCallFailed())


Handler._parse_mcp_result = staticmethod(_noting)
MCPClient.error_tool_result = staticmethod(_without_message)


def failures_of_task() -> list[str]:
    """Return a list that gets the texts of the failed calls that this task makes from here on."""
    noted: list[str] = []
    _failures.set(noted)
    return noted
