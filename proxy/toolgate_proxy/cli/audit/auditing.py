"""Compares a response with its receipt."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from toolgate_core.errors import InvalidRequest, ToolgateError
from toolgate_core.tools import OnInvalid, Tool

from ...api.chat_completions.functions import offered_tools
from ...api.messages.conversation.call_ids import shown_id
from ...api.messages.tools import read_tools as message_tools
from ...api.responses.tools import read_tools as response_tools
from ...api.shared.hosted_tools import HostedTools
from ...receipts.keys import ReceiptKey
from ...receipts.receipt import ReceiptInvalid, SignedCall, SignedTool, text_hash, verify
from ...validation.validator import InvalidSchema, Validator
from .log_line import LoggedCall, LogLine, place_of


class _Options(TypedDict):
    open_objects: bool
    on_invalid: OnInvalid


class AuditFailed(Exception):
    """The response is not the one of the receipt. The message states the difference."""


def audit(line: LogLine, key: ReceiptKey, *, open_objects: bool = False) -> None:
    """Raises AuditFailed."""
    if line.receipt is None:
        raise AuditFailed("the response has no receipt")
    try:
        receipt = verify(line.receipt, key)
    except ReceiptInvalid as error:
        raise AuditFailed(f"the receipt is not valid: {error}") from error
    if receipt.response != line.response_id:
        raise AuditFailed(f"the receipt is that of the response {receipt.response}")
    _calls(line, receipt.calls)
    if line.request is not None:
        tools = _requested(line, line.request, open_objects)
        _tools(receipt.tools, tools)
        for call in line.calls:
            if call.complete and call.kind == "function":
                _satisfies(call, tools)


def _calls(line: LogLine, signed: list[SignedCall]) -> None:
    """The calls of the response are those of the receipt, each at its place. The Messages API
    leaves out calls that were cut."""
    logged = {(call.choice, call.index): call for call in line.calls}
    if len(logged) != len(line.calls):
        raise AuditFailed("two choices have the same index")
    for entry in signed:
        call = logged.pop((entry.choice, entry.index), None)
        if line.api == "messages" and not entry.complete:
            if call is not None:
                raise AuditFailed(
                    f"the {call.place} of {call.name!r} is not one of the message: the receipt has "
                    "a call there that was cut"
                )
        elif call is None:
            place = place_of(entry.choice, entry.index)
            raise AuditFailed(f"the {place} of {entry.name!r} is missing")
        else:
            _compare(line, call, entry)
    for call in logged.values():
        raise AuditFailed(f"the {call.place} of {call.name!r} is not in the receipt")


def _compare(line: LogLine, call: LoggedCall, entry: SignedCall) -> None:
    what = f"the {call.place} of {entry.name!r} was changed"
    signed_id = entry.id
    signed_hash: str | None = entry.text
    if line.api == "messages":
        signed_id, signed_hash = shown_id(entry.id, line.response_id, entry.index), entry.value
        if signed_hash is None:
            raise AuditFailed(
                f"the {call.place} of {entry.name!r} can't be compared: its arguments are nested "
                "too deeply, so the receipt has no hash of their value"
            )
    if call.name != entry.name:
        raise AuditFailed(f"{what}: it is one of {call.name!r}")
    if call.kind != entry.kind:
        raise AuditFailed(f"{what}: its type is {call.kind!r}, not {entry.kind!r}")
    if call.id is not None and call.id != signed_id:
        raise AuditFailed(f"{what}: its id is {call.id!r}, not {signed_id!r}")
    if text_hash(call.text) != signed_hash:
        raise AuditFailed(f"{what}: its arguments differ")
    if call.complete is not None and call.complete != entry.complete:
        stated = "complete, but it was cut" if call.complete else "cut, but it was complete"
        raise AuditFailed(f"{what}: the response states that it is {stated}")


def _requested(line: LogLine, request: Mapping[str, Any], open_objects: bool) -> dict[str, Tool]:
    """The tools of the request, without invalid ones: the gateway may have left them out
    (`TOOLGATE_INVALID_TOOLS=omit`), and then neither calls nor the receipt may name them."""
    given, hosted = request.get("tools") or (), HostedTools(omit=True)
    options: _Options = {"open_objects": open_objects, "on_invalid": _leave_out}
    try:
        if line.api == "messages":
            found = message_tools(given, hosted, betas="", **options).tools
        elif line.api == "responses":
            found = response_tools(given, hosted, **options).functions
        else:
            found = offered_tools(_without_null(request), hosted, **options)
    except (ToolgateError, TypeError) as error:
        raise AuditFailed(f"the tools of the request can't be read: {error}") from error
    return {tool.name: tool for tool in found}


def _leave_out(_name: str, _error: InvalidRequest) -> None:
    """The receipt names the tools that were offered."""


def _without_null(request: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in request.items() if value is not None}


def _tools(signed: list[SignedTool], tools: Mapping[str, Tool]) -> None:
    for entry in signed:
        tool = tools.get(entry.name)
        if tool is None:
            raise AuditFailed(f"the request has no tool {entry.name!r}, which the receipt names")
        if entry.hash != f"sha256:{tool.hash}":
            raise AuditFailed(f"the schema of {tool.name!r} is not the one that was enforced")


def _satisfies(call: LoggedCall, tools: Mapping[str, Tool]) -> None:
    tool = tools.get(call.name)
    if tool is None:
        raise AuditFailed(f"the request has no tool {call.name!r}, which was called")
    try:
        violation = Validator(tool.parameters).check(call.text, unique=False)
    except InvalidSchema as error:
        raise AuditFailed(f"the schema of {call.name!r} can't be read: {error.reason}") from error
    if violation is not None:
        place = violation.pointer or "the root"
        raise AuditFailed(f"the arguments of {call.name!r} violate their schema at {place}")
