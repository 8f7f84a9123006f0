"""MCP servers in the Responses API: their entries in `tools`, the items of their tools and calls,
and the calls that the user has approved."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

from toolgate_core.deltas import ArgumentsDelta, CallStart, InputDelta
from toolgate_core.errors import InvalidRequest

from ...api.responses.feature import ResponsesFeature, ResponsesOutput
from ...api.responses.output_items import (
    CallItem,
    Event,
    GatewayCallItem,
    Item,
    item_added,
    item_done,
)
from ...api.responses.turns import ItemTurns
from ...api.shared.history import History
from ...api.shared.tools import EchoedTool, ReadTool
from ...background import finished
from ...kept_values import KeptValues
from ...request.gateway_tools import GatewayTool, PendingCall
from ...request_fields import DEFERRED, Fields
from ...sealing import OwnerSeal, SealBroken
from ..feature import FeatureInput
from .servers import (
    CREDENTIALS,
    EMPTY,
    MAX_RESULT,
    McpEntry,
    McpOutcome,
    McpServers,
    McpTool,
    listing_of,
    read_entry,
)

CALL, LIST = "mcp_call", "mcp_list_tools"
REQUEST, ANSWER = "mcp_approval_request", "mcp_approval_response"
DENIED = "The user did not approve this call."
PURPOSE = "approved calls"
BEGUN = McpOutcome(error="This call began with an earlier request, and its result is not known.")
"""The outcome until the server responds. It stays if the gateway ends before."""
WAITS, PAUSE = 120, 0.5
"""Number of looks at a call that another request or gateway runs, and the seconds between them."""


@dataclass
class _ApprovedCall:
    """A call for which an approval was requested."""

    name: str
    arguments: str
    path: str


class ResponsesMcpOutput(ResponsesOutput):
    feature: McpInResponses

    def first(self) -> list[Item]:
        """List the tools of servers that the conversation has not listed yet."""
        return [ToolsItem(each.item()) for each in self.feature.entries if not each.listed]

    def call(self, start: CallStart, call_id: str) -> CallItem | None:
        entries = {tool.name: each for each in self.feature.entries for tool in each.allowed}
        if (entry := entries.get(start.name)) is None:
            return None
        waits = start.index >= 0 and start.name not in entry.approved
        return (ApprovalItem if waits else McpCallItem)(start.name, entry.label)


class McpInResponses(ResponsesFeature):
    TYPES = re.compile("mcp")
    ITEMS: ClassVar = {CALL: "mcp", LIST: "mcpl", REQUEST: "mcpr", ANSWER: "mcpa"}
    FIELDS: ClassVar = {
        CALL: ("name", "arguments", "server_label", "output", "error", "approval_request_id"),
        LIST: ("server_label", "tools", "error"),
        REQUEST: ("name", "arguments", "server_label"),
        ANSWER: ("approval_request_id", "approve", "reason"),
    }
    STATUS = (CALL,)
    OUTPUT = ResponsesMcpOutput

    def __init__(self, feature_input: FeatureInput) -> None:
        super().__init__(feature_input)
        self.entries: list[McpEntry] = []
        self._waiting: dict[str, _ApprovedCall] = {}
        """The calls without an answer so far, by the id of their request for approval."""
        self._approved: dict[str, _ApprovedCall] = {}
        """Those that were approved and did not run so far."""

    def take(self, entry: Fields) -> ReadTool | None:
        listing = listing_of(self.input.client, entry.place)
        if listing is None:
            return None
        mcp_entry = read_entry(entry, listing)
        self.entries.append(mcp_entry)
        deferred = entry.flag(DEFERRED) is True
        repeated = {
            name: value
            for name, value in entry.values.items()
            if value is not None and name not in CREDENTIALS
        }
        return ReadTool(mcp_entry.entries(entry.place, deferred=deferred), EchoedTool(repeated))

    @property
    def optional(self) -> frozenset[str]:
        return frozenset(tool.name for entry in self.entries for tool in entry.allowed)

    def runners(self) -> dict[str, GatewayTool]:
        return {name: tool for entry in self.entries for name, tool in entry.runners().items()}

    def read_back(self, item: Fields, kind: str, turns: ItemTurns) -> bool:
        match kind:
            case "mcp_approval_request":
                self._ask(item, turns)
            case "mcp_approval_response":
                self._answer(item, turns)
            case "mcp_call":
                self._ran(item, turns)
            case _:  # The request lists the tools itself: those of the item are not read again.
                self.entries = [
                    replace(each, listed=each.listed or each.is_list(item.values))
                    for each in self.entries
                ]
        return True

    def _ask(self, item: Fields, turns: ItemTurns) -> None:
        """Read a request for approval, as a call."""
        call_id, name = item.required_text("id"), item.required_text("name")
        arguments = turns.history.arguments(item)
        self._waiting[call_id] = _ApprovedCall(name, arguments, item.place)
        turns.call(call_id, name, arguments, item.place)

    def _answer(self, item: Fields, turns: ItemTurns) -> None:
        """Read the user's answer to a request for approval. Raise InvalidRequest if there is no
        such request before it."""
        call_id = item.required_text("approval_request_id")
        call = self._waiting.pop(call_id, None)
        if call is None:
            param = item.path("approval_request_id")
            raise InvalidRequest(
                f"{param!r}: no `mcp_approval_request` with this id, and without an answer, "
                "precedes it. Include that item in 'input'.",
                param=param,
            )
        if item.flag("approve"):
            self._approved[call_id] = call
            turns.result(call_id, placeholder(call_id), item.place)
            return
        reason = item.text("reason")
        turns.result(call_id, f"{DENIED} {reason}" if reason else DENIED, item.place)

    def _ran(self, item: Fields, turns: ItemTurns) -> None:
        """Read a call that the gateway or another service has run."""
        name, history = item.required_text("name"), turns.history
        error, output = item.values.get("error"), item.text("output")
        text = f"Error: {_error_text(error, item, history)}" if error else output or EMPTY
        approval = item.text("approval_request_id")
        if approval is not None and self._approved.pop(approval, None) is not None:
            turns.replace_result(placeholder(approval), text)
            return
        call_id = item.text("id") or f"mcp_{item.place}"
        turns.call(call_id, name, history.arguments(item), item.place)
        turns.result(call_id, text, item.place)

    def pending(self) -> Iterator[PendingCall]:
        client, tools = self.input.client, self.input.tools
        servers = {
            tool.name: entry.listing.servers for entry in self.entries for tool in entry.allowed
        }
        for call_id, call in self._approved.items():
            if call.name not in servers or not tools.is_loaded(call.name):
                raise InvalidRequest(
                    f"The approved call of {call.name!r} at {call.path!r} cannot run: the "
                    "request does not offer the tool. Send the same MCP servers in 'tools'.",
                    param=call.path,
                )
            at = servers[call.name]
            if client.seal is not None and client.values is not None:
                at = SingleCall(at, call_id, client.seal, client.values)
            tool = McpTool(call.name, at, call_id)
            yield PendingCall(call.name, call.arguments, tool, placeholder(call_id))


@dataclass(frozen=True)
class SingleCall:
    """The servers for a call that the user has approved, which runs once: clients repeat a request
    that failed after the call, and get the outcome that was kept. `approval`: the id of the request
    for approval."""

    servers: McpServers
    approval: str
    seal: OwnerSeal
    values: KeptValues

    def server_of(self, name: str) -> str:
        return self.servers.server_of(name)

    async def call(self, name: str, arguments: str) -> McpOutcome:
        """Return the outcome of the first such call. It goes on if the request is cancelled."""
        return await finished(self._outcome(name, arguments))

    async def _outcome(self, name: str, arguments: str) -> McpOutcome:
        told = json.dumps([self.seal.owner, self.approval, name, json.loads(arguments)])
        kept = self.seal.sealer.digest(told, purpose=PURPOSE)
        for _ in range(WAITS):
            [sealed] = await self.values.get([kept])
            if sealed is None:
                await self._keep(kept, BEGUN)
                outcome = await self.servers.call(name, arguments)
                await self._keep(kept, outcome)
                return outcome
            try:
                outcome = McpOutcome(**json.loads(self.seal.open(sealed, purpose=PURPOSE)))
            except SealBroken:
                break
            if outcome != BEGUN:
                return outcome
            await asyncio.sleep(PAUSE)
        return BEGUN

    async def _keep(self, kept: str, outcome: McpOutcome) -> None:
        told = {name: text and text[:MAX_RESULT] for name, text in asdict(outcome).items()}
        await self.values.put({kept: self.seal.seal(json.dumps(told).encode(), purpose=PURPOSE)})


def placeholder(call_id: str) -> str:
    """Return the content of the result of a call that has not run yet."""
    return f"[pending {call_id}]"


def _error_text(error: object, item: Fields, history: History) -> str:
    if isinstance(error, str):
        return error
    return history.text(error, item.path("error")) if isinstance(error, dict) else str(error)


@dataclass
class ToolsItem(Item):
    PREFIX = "mcpl"
    list: Mapping[str, Any]
    """The item without its id."""

    def begin(self) -> Iterator[Event]:
        last = "failed" if "error" in self.list else "completed"
        yield item_added(self.index, self.body())
        yield self.event("response.mcp_list_tools.in_progress")
        yield self.event(f"response.mcp_list_tools.{last}")
        yield item_done(self.index, self.body())

    def body(self) -> dict[str, Any]:
        return {"id": self.id, **self.list}


@dataclass
class McpCallItem(GatewayCallItem):
    PREFIX = "mcp"
    EVENTS = "response.mcp_call"
    name: str
    label: str
    _outcome: McpOutcome | None = None

    def add(self, event: ArgumentsDelta | InputDelta) -> Iterator[Event]:
        yield from super().add(event)
        if event.text:
            yield self.event("response.mcp_call_arguments.delta", delta=event.text)

    def end(self) -> Iterator[Event]:
        """End the call, which is complete and valid: the server runs it."""
        yield self.event("response.mcp_call_arguments.done", arguments=self.arguments)

    def ending(self, shown: McpOutcome) -> str:
        self._outcome = shown
        return "completed" if shown.error is None else "failed"

    def body(self) -> dict[str, Any]:
        outcome = self._outcome or McpOutcome()
        status = "failed" if outcome.error is not None else self.status
        return {
            "id": self.id,
            "type": CALL,
            "status": status,
            "server_label": self.label,
            "name": self.name,
            "arguments": self.arguments,
            "output": outcome.output,
            "error": outcome.error,
            "approval_request_id": outcome.approval,
        }


@dataclass
class ApprovalItem(CallItem):
    """A call that needs an approval."""

    PREFIX = "mcpr"
    announced = False
    name: str
    label: str

    def body(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "type": REQUEST,
            "server_label": self.label,
            "name": self.name,
            "arguments": self.arguments,
        }
