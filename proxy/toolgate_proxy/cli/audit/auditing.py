"""Compares a response with its receipt."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs

from toolgate_core.errors import ToolgateError
from toolgate_core.pointer import pointer_of
from toolgate_core.tools import Tool, parse_tools

from ...receipts.keys import ReceiptKey
from ...receipts.receipt import ReceiptInvalid, arguments_hash, verify
from .log_line import LogLine, SentCall


class AuditFailed(Exception):
    """The response is not the one of the receipt. The message states the difference."""


def audit(line: LogLine, key: ReceiptKey, *, open_objects: bool = False) -> None:
    """Raises AuditFailed."""
    receipt = line.receipt
    if receipt is None:
        raise AuditFailed("the response has no receipt")
    try:
        verify(receipt, key)
    except ReceiptInvalid as error:
        raise AuditFailed(f"the receipt is not valid: {error}") from error
    if receipt["response"] != line.response_id:
        raise AuditFailed(f"the receipt is that of the response {receipt['response']}")
    _calls(line.calls, receipt["calls"])
    if line.tools is not None:
        _tools(line, receipt, open_objects)


def _calls(sent: list[SentCall], signed: list[dict[str, Any]]) -> None:
    """The complete calls of the receipt are in the response, unchanged. The Messages API leaves
    out calls that were cut."""
    complete = [call for call in signed if call["complete"]]
    hashes = [(call.name, arguments_hash(call.arguments)) for call in sent]
    for number, call in enumerate(complete):
        if number >= len(hashes):
            raise AuditFailed(f"the call {number} of {call['name']!r} is missing")
        if (call["name"], call["arguments"]) != hashes[number]:
            raise AuditFailed(f"the call {number} of {call['name']!r} was changed")
    if len(hashes) > len(signed):
        raise AuditFailed(f"the response has {len(hashes)} calls, the receipt {len(signed)}")


def _tools(line: LogLine, receipt: dict[str, Any], open_objects: bool) -> None:
    try:
        tools = {
            tool.name: tool for tool in parse_tools(line.tools or (), open_objects=open_objects)
        }
    except ToolgateError as error:
        raise AuditFailed(f"the tools of the request can't be read: {error}") from error
    for entry in receipt["tools"]:
        tool = tools.get(entry["name"])
        if tool is not None and entry["schema"] != f"sha256:{tool.hash}":
            raise AuditFailed(f"the schema of {tool.name!r} is not the one that was enforced")
    complete = sum(call["complete"] for call in receipt["calls"])
    for call in line.calls[:complete]:
        if call.name in tools:
            _satisfies(call, tools[call.name])


def _satisfies(call: SentCall, tool: Tool) -> None:
    validator = jsonschema_rs.Draft202012Validator(tool.parameters, validate_formats=True)
    for error in validator.iter_errors(json.loads(call.arguments)):
        place = pointer_of(error.instance_path) or "the root"
        raise AuditFailed(f"the arguments of {call.name!r} violate their schema at {place}")
