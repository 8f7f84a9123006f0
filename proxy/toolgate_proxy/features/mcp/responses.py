"""Calls of MCP servers in the history, and those that the user has approved since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from toolgate_core.errors import InvalidRequest
from toolgate_core.gateway_tools import PendingCall
from toolgate_core.toolset import Toolset

from ...request_fields import Fields
from ..shared.history import History
from ..shared.mcp import EMPTY, McpEntry, McpTool
from ..shared.ran_once import RanOnce
from ..surface import Client
from .turns import Turns

REQUEST_FIELDS = ("name", "arguments", "server_label")
RESPONSE_FIELDS = ("approval_request_id", "approve", "reason")
CALL_FIELDS = ("name", "arguments", "server_label", "output", "error", "approval_request_id")
DENIED = "The user did not approve this call."


@dataclass
class _Asked:
    name: str
    arguments: str
    path: str


@dataclass
class Approvals:
    """Reads the items of MCP servers of one request, in their order."""

    approved: dict[str, _Asked] = field(default_factory=dict)
    """The calls that were approved and did not run so far, by the id of their request."""
    _asked: dict[str, _Asked] = field(default_factory=dict)

    def ask(self, item: Fields, turns: Turns) -> None:
        """Read a request for approval, as a call."""
        call_id, name = item.required_text("id"), item.required_text("name")
        arguments = turns.history.arguments(item.values.get("arguments"), item.path("arguments"))
        self._asked[call_id] = _Asked(name, arguments, item.place)
        turns.call(_call(call_id, name, arguments), item.place)

    def answer(self, item: Fields, turns: Turns) -> None:
        """Read the user's answer to a request for approval. Raise InvalidRequest if there is no
        such request before it."""
        call_id = item.required_text("approval_request_id")
        asked = self._asked.pop(call_id, None)
        if asked is None:
            param = item.path("approval_request_id")
            raise InvalidRequest(
                f"{param!r}: no `mcp_approval_request` with this id, and without an answer, "
                "precedes it. Include that item in `input`.",
                param=param,
            )
        if item.flag("approve"):
            self.approved[call_id] = asked
            turns.result(call_id, placeholder(call_id), item.place)
            return
        reason = item.text("reason")
        turns.result(call_id, f"{DENIED} {reason}" if reason else DENIED, item.place)

    def ran(self, item: Fields, turns: Turns) -> None:
        """Read a call that the gateway or another service has run."""
        name, history = item.required_text("name"), turns.history
        error, output = item.values.get("error"), item.text("output")
        text = f"Error: {_error_text(error, item, history)}" if error else output or EMPTY
        approval = item.text("approval_request_id")
        if approval is not None and self.approved.pop(approval, None) is not None:
            turns.replace_result(placeholder(approval), text)
            return
        call_id = item.text("id") or f"mcp_{item.place}"
        arguments = history.arguments(item.values.get("arguments"), item.path("arguments"))
        turns.call(_call(call_id, name, arguments), item.place)
        turns.result(call_id, text, item.place)


def pending_calls(
    approvals: Approvals, entries: Iterable[McpEntry], tools: Toolset, client: Client
) -> tuple[PendingCall, ...]:
    """Return the calls that run before the response. Raise InvalidRequest for a call of a tool that
    the request does not offer."""
    servers = {tool.name: entry.listing.servers for entry in entries for tool in entry.allowed}
    pending = []
    for call_id, asked in approvals.approved.items():
        if asked.name not in servers or not tools.is_loaded(asked.name):
            raise InvalidRequest(
                f"The approved call of {asked.name!r} at {asked.path!r} can't run: the request "
                "does not offer the tool. Send the same MCP servers in `tools`.",
                param=asked.path,
            )
        at = servers[asked.name]
        if client.seal is not None and client.values is not None:
            at = RanOnce(at, call_id, client.seal, client.values)
        tool = McpTool(asked.name, at, call_id)
        pending.append(PendingCall(asked.name, asked.arguments, tool, placeholder(call_id)))
    return tuple(pending)


def placeholder(call_id: str) -> str:
    """Return the content of the result of a call that has not run yet."""
    return f"[pending {call_id}]"


def _call(call_id: str, name: str, arguments: str) -> dict[str, object]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def _error_text(error: object, item: Fields, history: History) -> str:
    if isinstance(error, str):
        return error
    return history.text(error, item.path("error")) if isinstance(error, dict) else str(error)
