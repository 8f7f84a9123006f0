"""Patches of LiteLLM's client of MCP servers.

- What servers send by HTTP is bounded. LiteLLM's client reads a response whole and parses it on the
  event loop, where a huge one would hold up all requests.
- `noted_failures` tells whether a call failed, which LiteLLM's text of the result does not say.
- A result has no messages of exceptions but the server's own errors: others have addresses. Calls
  of LiteLLM's own routes are as without Toolgate.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import Any

from litellm.experimental_mcp_client.client import MCPClient
from litellm.responses.mcp.litellm_proxy_mcp_handler import LiteLLM_Proxy_MCP_Handler as Handler

MAX_BYTES = 16_000_000
"""Of a response, decompressed. A list of 10,000 tools has nine million, and takes 0.1 s."""
_factory_of = MCPClient._create_httpx_client_factory
OF_SERVERS = ("MCPError", "McpError")
"""Errors of the protocol, in mcp 2 and mcp 1."""
_failures: ContextVar[list[str]] = ContextVar("toolgate_mcp_failures")
_text_of = Handler._parse_mcp_result
_result_of = MCPClient.error_tool_result


def _bounded_factory(self: MCPClient, **options: Any) -> Callable[..., Any]:
    make = _factory_of(self, **options)

    def factory(**arguments: Any) -> Any:
        client = make(**arguments)
        hooks = client.event_hooks
        client.event_hooks = {**hooks, "response": [_bound, *hooks["response"]]}
        return client

    return factory


async def _bound(response: Any) -> None:
    """Make reading of a response fail where it exceeds the bound, with an error that the client of
    MCP servers passes on."""
    read = response.aiter_bytes

    async def bounded(chunk_size: int | None = None) -> AsyncIterator[bytes]:
        size = 0
        async for part in read(chunk_size):
            size += len(part)
            if size > MAX_BYTES:
                library = import_module(type(response).__module__.partition(".")[0])
                raise library.StreamError(f"the response has more than {MAX_BYTES:,} bytes")
            yield part

    response.aiter_bytes = bounded


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


MCPClient._create_httpx_client_factory = _bounded_factory
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
