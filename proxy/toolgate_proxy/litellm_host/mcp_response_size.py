"""A bound on what MCP servers send by HTTP. LiteLLM's client reads a response whole and parses it
on the event loop, where a huge one would hold up all requests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from importlib import import_module
from typing import Any

from litellm.experimental_mcp_client.client import MCPClient

MAX_BYTES = 16_000_000
"""Of a response, decompressed. A list of 10,000 tools has nine million, and takes 0.1 s."""
_factory_of = MCPClient._create_httpx_client_factory


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


MCPClient._create_httpx_client_factory = _bounded_factory
