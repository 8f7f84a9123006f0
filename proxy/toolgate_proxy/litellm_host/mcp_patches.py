"""Patches of LiteLLM's client of MCP servers.

- What servers send is bounded. LiteLLM's client reads a response whole and parses it on the event
  loop, and works there on each tool and each part of a result. Many would hold up all requests.
- A result of one of our calls is one text, before anything copies its parts, and has the text of
  resources and structured content, which LiteLLM's text of the result leaves out.
- `noted_failures` tells whether a call failed, which LiteLLM's text of the result does not say.
- A result has no messages of exceptions but the server's own errors: others have addresses. Calls
  of LiteLLM's own routes are as without Toolgate.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from httpx2 import StreamError
from litellm.experimental_mcp_client.client import MCPClient
from litellm.responses.mcp.litellm_proxy_mcp_handler import LiteLLM_Proxy_MCP_Handler as Handler
from mcp.types import CallToolResult, jsonrpc_message_adapter

from ..api.shared.mcp import MAX_RESULT, result_text
from ..json_values import exceeds

MAX_BYTES = 16_000_000
"""Of a response, decompressed."""
MAX_VALUES = 70_000
"""Of a message."""
MAX_TOOLS = 800
"""Of a server. LiteLLM works on each for a millisecond, in each request that names the server."""
MAX_PARTS = 100
"""Of a result. Each callback copies them."""


class TooMuch(StreamError, ValueError):
    """The error of a server that sends too much, which all transports pass on."""


OF_SERVERS = ("MCPError", TooMuch.__name__)
"""Errors of the protocol, and ours."""
_factory_of = MCPClient._create_httpx_client_factory
_list, _call = MCPClient.list_tools, MCPClient.call_tool
_parse = jsonrpc_message_adapter.validate_json
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
                raise _excess(f"{MAX_BYTES:,} bytes")
            yield part

    response.aiter_bytes = bounded


def _message(content: str | bytes, **options: Any) -> Any:
    """Parse a message of a server. The parts of a result are one text, before anything copies them,
    for our own calls or if they are many."""
    if exceeds(content.encode() if isinstance(content, str) else content, MAX_VALUES):
        raise _excess(f"{MAX_VALUES:,} JSON values")
    message = _parse(content, **options)
    result: Any = getattr(message, "result", None) or {}
    parts = result.get("content")
    is_ours = _failures.get(None) is not None
    if isinstance(parts, list) and (is_ours or len(parts) > MAX_PARTS):
        result["content"] = [{"type": "text", "text": result_text(result)[:MAX_RESULT]}]
    return message


async def _few(self: MCPClient, *arguments: Any, **options: Any) -> Any:
    tools = await _list(self, *arguments, **options)
    if len(tools) > MAX_TOOLS:
        raise _excess(f"{MAX_TOOLS:,} tools")
    return tools


async def _unstructured(self: MCPClient, *arguments: Any, **options: Any) -> Any:
    """Return the result of a call without structured content, which its text has, if it is ours."""
    result = await _call(self, *arguments, **options)
    if _failures.get(None) is not None and isinstance(result, CallToolResult):
        result.structured_content = None
    return result


def _excess(bound: str) -> TooMuch:
    """Note and return the error of a server that sends more than a bound."""
    error = TooMuch(f"the MCP server sent more than {bound}")
    _note(str(error))
    return error


def _note(text: str) -> None:
    if (noted := _failures.get(None)) is not None:
        noted.append(text)


class ToolCallFailed(Exception):
    """Stands for an exception whose message is for the log. The text of a result begins with the
    name of this class."""


def _noting(result: Any) -> str:
    text: str = _text_of(result)
    if getattr(result, "is_error", None):
        _note(text)
    return text


def _without_message(exc: Exception) -> Any:
    is_ours = _failures.get(None) is not None
    hidden = is_ours and type(exc).__name__ not in OF_SERVERS
    return _result_of(ToolCallFailed() if hidden else exc)


jsonrpc_message_adapter.validate_json = _message  # type: ignore[assignment, method-assign]
MCPClient._create_httpx_client_factory = _bounded_factory
MCPClient.list_tools, MCPClient.call_tool = _few, _unstructured
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
