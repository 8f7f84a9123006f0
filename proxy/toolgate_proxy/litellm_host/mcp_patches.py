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

from anyio import EndOfStream
from anyio.streams.text import TextReceiveStream
from httpx2 import StreamError
from litellm.experimental_mcp_client import client
from litellm.experimental_mcp_client.client import MCPClient
from litellm.responses.mcp.litellm_proxy_mcp_handler import LiteLLM_Proxy_MCP_Handler as Handler
from mcp.client import stdio
from mcp.types import TextContent, jsonrpc_message_adapter

from ..api.shared.mcp import MAX_RESULT, result_text
from ..json_values import exceeds

MAX_BYTES = 16_000_000
"""Of a response, decompressed, or of what a process writes."""
MAX_VALUES = 70_000
"""Of a message."""
MAX_TOOLS = 800
"""Of a server. LiteLLM works on each for a millisecond, in each request that names the server."""
MAX_PARTS = 100
"""Of a result. Each callback copies them."""


class TooMuch(StreamError, ValueError):
    """The error of a server that sends too much, which all transports pass on."""


OF_SERVERS = ("MCPError", "McpError", TooMuch.__name__)
"""Errors of the protocol, in mcp 2 and mcp 1, and ours."""
_factory_of = MCPClient._create_httpx_client_factory
_call, _all_pages = MCPClient.call_tool, client.list_tools_with_pagination
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


class _BoundedText(TextReceiveStream):
    """The output of a server's process."""

    size = 0

    async def receive(self) -> str:
        text = await super().receive()
        self.size += len(text)
        if self.size > MAX_BYTES:
            _excess(f"{MAX_BYTES:,} bytes")
            await self.aclose()  # or the client would wait for the end of the process
            raise EndOfStream
        return text


def _message(content: str | bytes, **options: Any) -> Any:
    """Parse a message of a server, and join many parts of a result to one."""
    if exceeds(content.encode() if isinstance(content, str) else content, MAX_VALUES):
        raise _excess(f"{MAX_VALUES:,} JSON values")
    message = _parse(content, **options)
    result: Any = getattr(message, "result", None) or {}
    parts = result.get("content")
    if isinstance(parts, list) and len(parts) > MAX_PARTS:
        result["content"] = [{"type": "text", "text": result_text({"content": parts})}]
    return message


async def _pages(session: Any, *arguments: Any, **options: Any) -> Any:
    """List the tools of a server, page by page."""
    listed = 0

    class Bounded:
        async def list_tools(self, **params: Any) -> Any:
            nonlocal listed
            page = await session.list_tools(**params)
            listed += len(page.tools)
            if listed > MAX_TOOLS:
                raise _excess(f"{MAX_TOOLS:,} tools")
            return page

    return await _all_pages(Bounded(), *arguments, **options)


async def _joined(self: MCPClient, *arguments: Any, **options: Any) -> Any:
    """Return the result of one of our calls as one text, as the model sees it."""
    result = await _call(self, *arguments, **options)
    if _failures.get(None) is None or not hasattr(result, "content"):
        return result
    text = result_text(result.model_dump(by_alias=True, mode="json"))
    result.content = [TextContent(type="text", text=text[:MAX_RESULT])]
    result.structured_content = None
    return result


def _excess(bound: str) -> Exception:
    """Note and return the error of a server that sends more than a bound."""
    error = TooMuch(f"the MCP server sent more than {bound}")
    if (noted := _failures.get(None)) is not None:
        noted.append(str(error))
    return error


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


jsonrpc_message_adapter.validate_json = _message  # type: ignore[method-assign]
vars(stdio)["TextReceiveStream"] = _BoundedText
client.list_tools_with_pagination = _pages
MCPClient._create_httpx_client_factory = _bounded_factory
MCPClient.call_tool = _joined
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
