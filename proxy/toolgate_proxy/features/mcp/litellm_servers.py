"""The MCP servers of LiteLLM, with its permissions, credentials, guardrails and logs.

LiteLLM's client of MCP servers is patched:

- What servers send is bounded. LiteLLM's client reads and parses a response, or a line of a
  process, whole on the event loop, and works there on each tool and each part of a result.
- A result of one of our calls is one text, before anything copies its parts, and has the text of
  resources and structured content, which LiteLLM's text of the result leaves out.
- `noted_failures` has the failures of calls, which LiteLLM's text of the result does not tell.
- A result of one of our calls has no messages of exceptions but the server's own errors: others
  have addresses.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from anyio.abc import ByteReceiveStream
from anyio.streams.text import TextReceiveStream
from httpx2 import StreamError
from litellm.proxy._types import UserAPIKeyAuth
from litellm.responses.mcp.litellm_proxy_mcp_handler import LiteLLM_Proxy_MCP_Handler as Handler
from mcp.client import stdio
from mcp.types import CallToolResult, jsonrpc_message_adapter

from toolgate_core.host_probe import optional
from toolgate_core.tools import TOOL_NAME

from ...api.surface import Client
from ...background import within
from ...chat.tool_calls import begin_series
from ...json_values import Excess, exceeds
from ...keys.access import Header
from ...litellm_host.routing.long_term import module
from ...request.gateway_tools import CallResult
from ..litellm_part import FeaturePart
from .litellm_credentials import EXTRA, TOKENS, EntrySecrets, McpCredentials, entries_of, servers
from .servers import MAX_RESULT, MCP, ListedTool, Listing, McpListings, McpOutcome, result_text

logger = logging.getLogger(__name__)

MCPClient = module("litellm.mcp_client.client").MCPClient
strip_known_server_prefix = module("litellm.proxy.mcp_server.utils").strip_known_server_prefix
MAX_BYTES = 16_000_000
"""Of a response, decompressed, or of a line that a process writes."""
MAX_VALUES = 70_000
"""Of a message."""
MAX_TOOLS = 800
"""Of a server. LiteLLM works on each for a millisecond, in each request that names the server."""
MAX_PARTS = 100
"""Of a result. Each callback copies them."""
LIST_SECONDS, CALL_SECONDS = 20.0, 60.0
"""Longest times of a listing and of a call. LiteLLM's client may hang if it is cancelled while the
process of a server begins or ends, so its end is not awaited."""
OTHERS, MAX_NAME = re.compile(r"[^A-Za-z0-9_.-]"), 100
"""The characters that names of tools cannot have, and the length at which such names are cut."""


class ToolCallFailed(Exception):
    """Stands for an exception whose message is for the log. Results begin with its name."""


FAILED = (
    f"{ToolCallFailed.__name__}:",
    "Error executing tool:",
    "Tool call failed:",
    "Tool call blocked:",
)
"""Beginnings of LiteLLM's texts of calls that failed. Only the last one is for the model: the
others have messages of exceptions, with addresses."""


def mcp_entries(body: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the entries of a request that name MCP servers, by their paths, in OpenAI's form."""
    of_openai = {"server_label": "name", "server_url": "url", **{name: name for name in TOKENS}}
    return {
        f"{name}[{at}]": entry
        if name == "tools"
        else {"type": MCP, **{member: entry.get(theirs) for member, theirs in of_openai.items()}}
        for name, at, entry in entries_of(body)
    }


class LiteLLMMcp(FeaturePart):
    """The MCP servers of one request, with the credentials that the client sent for them."""

    PARAMETERS = frozenset({"mcp_servers", EXTRA})

    def __init__(self) -> None:
        self._credentials = McpCredentials()

    @staticmethod
    def begin_series() -> None:
        begin_series(
            "mcp", (str(each.server_name or each.alias or each.name) for each in servers())
        )

    def hide(self, values: dict[str, Any], headers: Collection[Header]) -> dict[str, Any]:
        self._credentials.read_headers(headers)
        return self._credentials.hide(values)

    def reveal(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return self._credentials.reveal(values)

    async def provide(
        self, client: Client, values: Mapping[str, Any], caller: UserAPIKeyAuth
    ) -> Client:
        if not (entries := mcp_entries(values)):
            return client
        # Others have none: nothing is sent to an address that the operator did not configure.
        ours = {
            path: served[0]
            for path, entry in entries.items()
            if self._credentials.names_gateway(entry)
            and (served := (await Handler.split_mcp_tools([entry]))[0])
        }
        listings = await asyncio.gather(
            *(_listed(entry, caller, self._credentials.of_entry(entry)) for entry in ours.values())
        )
        return client.given(McpListings, McpListings(dict(zip(ours, listings, strict=True))))


async def _listed(entry: Mapping[str, Any], caller: UserAPIKeyAuth, sent: EntrySecrets) -> Listing:
    unlisted = LiteLLMServers(caller, {}, sent)
    asked = {name: entry[name] for name in ("type", "server_label", "server_url") if name in entry}
    try:
        process = Handler.process_mcp_tools_without_openai_transform
        with noted_failures() as failed:
            tools, servers_of = await within(
                LIST_SECONDS,
                process(
                    caller,
                    [asked],
                    mcp_auth_header=sent.token,
                    mcp_server_auth_headers=sent.server_headers,
                    raw_headers=sent.forwarded,
                ),
            )
    except Exception as error:  # noqa: BLE001  of any server: the client sees that it failed
        logger.warning("The tools of an MCP server cannot be listed: %s", type(error).__name__)
        return Listing(unlisted, error="The MCP server does not respond.")
    if failed:
        return Listing(unlisted, error=f"The tools cannot be listed: {failed[0]}.")
    if not tools:
        return Listing(unlisted, error="The MCP server has no tools that this key may use.")
    begin_series("mcp", servers_of.values())
    listed = tuple(_tools(tools, servers_of))
    names = {tool.name: original.name for tool, original in zip(listed, tools, strict=True)}
    return Listing(LiteLLMServers(caller, servers_of, sent, names), listed)


def _tools(tools: Sequence[Any], servers_of: Mapping[str, str]) -> Iterator[ListedTool]:
    """Yield the tools. Those whose names the model cannot use get others."""
    known = {tool.name for tool in tools if TOOL_NAME.fullmatch(tool.name)}
    for tool in tools:
        name = tool.name
        if name not in known:
            name = OTHERS.sub("_", name)[:MAX_NAME] or "_"
            name = next(each for at in count() if (each := name + "_" * at) not in known)
            known.add(name)
        yield _tool(tool, name, servers_of[tool.name])


def _tool(tool: Any, name: str, server_name: str) -> ListedTool:
    named = [each for each in servers() if server_name in (each.server_name, each.alias, each.name)]
    own_names = (strip_known_server_prefix(tool.name, named[0] if named else None), tool.name)
    annotations = tool.annotations
    hints = annotations and annotations.model_dump(by_alias=True, exclude_none=True)
    schema = tool.model_dump(by_alias=True).get("inputSchema")
    return ListedTool(name, tool.description or "", schema, hints, own_names)


@dataclass(frozen=True)
class LiteLLMServers:
    caller: UserAPIKeyAuth
    servers_of: Mapping[str, str]
    """The name of each tool's server."""
    sent: EntrySecrets = field(repr=False)
    """What the client sent for the servers."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The names of the tools, by those that the model uses."""

    def server_of(self, name: str) -> str:
        return self.servers_of.get(self.names.get(name, name), "")

    async def call(self, name: str, arguments: str) -> McpOutcome:
        """Run a tool by LiteLLM's manager, with its hooks and log events."""
        server_tool = self.names.get(name, name)
        call = {"name": server_tool, "arguments": arguments, "call_id": server_tool}
        try:
            with noted_failures() as failed:
                results = await within(
                    CALL_SECONDS,
                    Handler.execute_tool_calls(
                        tool_server_map=dict(self.servers_of),
                        tool_calls=[call],
                        user_api_key_auth=self.caller,
                        mcp_auth_header=self.sent.token,
                        mcp_server_auth_headers=self.sent.server_headers,
                        raw_headers=self.sent.forwarded,
                    ),
                )
        except Exception as error:  # noqa: BLE001  of any server: the model sees that it failed
            logger.warning("A call of an MCP server failed: %s", type(error).__name__)
            failure: CallResult = "timeout" if isinstance(error, TimeoutError) else "error"
            return McpOutcome(error="The MCP server does not respond.", failure=failure)
        text = str(results[0]["result"])[:MAX_RESULT] if results else ""
        if text.startswith(FAILED[-1]):
            return McpOutcome(error=text, failure="refused")
        if text.startswith(FAILED):
            return McpOutcome(error="The MCP server could not run the tool.")
        return McpOutcome(error=text) if failed else McpOutcome(output=text)


class ServerExcess(StreamError, ValueError, Excess):
    """The error of a server that sends too much, which all transports pass on."""


OF_SERVERS = ("MCPError", ServerExcess.__name__)
"""Errors of the protocol, and ours."""
_factory_of = MCPClient._create_httpx_client_factory
_list, _call = MCPClient.list_tools, MCPClient.call_tool
_parse = jsonrpc_message_adapter.validate_json
_failures: ContextVar[list[str]] = ContextVar("toolgate_mcp_failures")
_result_of = MCPClient.error_tool_result


def _bounded_factory(self: Any, **options: Any) -> Callable[..., Any]:
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


@dataclass(frozen=True)
class _Lines(ByteReceiveStream):
    """The standard output of a server's process, in parts that end with a line: the client would
    copy what it has of a line with each part. At the bound, the line becomes one that `_message`
    refuses, and nothing more is read: the client would read until the process ends."""

    output: ByteReceiveStream

    async def receive(self, max_bytes: int = 65_536) -> bytes:
        read = bytearray()
        while b"\n" not in read[-max_bytes:]:
            read += await self.output.receive(max_bytes)
            if len(read) > MAX_BYTES:
                await self.output.aclose()
                return b"x" * (MAX_BYTES + 1) + b"\n"
        return bytes(read)

    async def aclose(self) -> None:
        await self.output.aclose()


def _text(output: ByteReceiveStream, **options: str) -> TextReceiveStream:
    return TextReceiveStream(_Lines(output), **options)


def _message(content: str | bytes, **options: Any) -> Any:
    """Parse a message of a server. The parts of a result are one text, before anything copies them,
    for our own calls or if they are many."""
    content = content.encode() if isinstance(content, str) else content
    if len(content) > MAX_BYTES:
        raise _excess(f"{MAX_BYTES:,} bytes")
    if exceeds(content, MAX_VALUES):
        raise _excess(f"{MAX_VALUES:,} JSON values")
    message = _parse(content, **options)
    result: Any = optional(message, "result") or {}
    parts = result.get("content")
    is_ours = _failures.get(None) is not None
    if isinstance(parts, list) and (is_ours or len(parts) > MAX_PARTS):
        result["content"] = [{"type": "text", "text": result_text(result)[:MAX_RESULT]}]
    if result.get("isError"):
        _note("the server reports an error")
    return message


async def _few(self: Any, *arguments: Any, **options: Any) -> Any:
    tools = await _list(self, *arguments, **options)
    if len(tools) > MAX_TOOLS:
        raise _excess(f"{MAX_TOOLS:,} tools")
    return tools


async def _unstructured(self: Any, *arguments: Any, **options: Any) -> Any:
    """Return the result of a call without structured content, which its text has, if it is ours."""
    result = await _call(self, *arguments, **options)
    if _failures.get(None) is not None and isinstance(result, CallToolResult):
        result.structured_content = None
    return result


def _excess(bound: str) -> ServerExcess:
    """Note and return the error of a server that sends more than a bound."""
    error = ServerExcess(f"the MCP server sent more than {bound}")
    _note(str(error))
    return error


def _note(text: str) -> None:
    if (noted := _failures.get(None)) is not None:
        noted.append(text)


def _without_message(exc: Exception) -> Any:
    if _failures.get(None) is not None:
        exc = exc if type(exc).__name__ in OF_SERVERS else ToolCallFailed()
        _note(str(exc))
    return _result_of(exc)


jsonrpc_message_adapter.validate_json = _message  # type: ignore[assignment, method-assign]
stdio.TextReceiveStream = _text  # type: ignore[assignment, attr-defined]
MCPClient._create_httpx_client_factory = _bounded_factory
MCPClient.list_tools, MCPClient.call_tool = _few, _unstructured
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
