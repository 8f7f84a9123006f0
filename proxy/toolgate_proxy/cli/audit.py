"""`toolgate audit`: verifies receipts of a log offline."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from toolgate_core.errors import InvalidRequest, ToolgateError
from toolgate_core.tools import Tool

from ..api.messages.conversation.call_ids import MCP, SERVER, server_id, shown_id
from ..api.shared.mcp import MCP as MCP_ENTRY
from ..api.surfaces import SURFACES
from ..receipts.keys import InvalidReceiptKey, ReceiptKey, new_key, read_key
from ..receipts.receipt import ReceiptInvalid, SignedCall, SignedTool, text_hash, verify
from ..settings import settings
from ..validation.validator import InvalidSchema, Validator
from .audit_log import LoggedCall, LogLine, NotALine, place_of, read_line
from .main import command, examples
from .output import CommandFailed

READ = ("tools", "functions", "messages", "input")
"""The fields of a request that decide which tools can be called."""
SERVED = (MCP_ENTRY, "web_search", "web_fetch")
"""How the types of tools begin whose schemas a request does not have."""
APPROVALS = ("mcp_approval_request", "mcp_approval_response")
"""Types of items about calls of MCP servers."""
NO_MESSAGES = [{"role": "user", "content": "-"}]
"""The conversation of a request that the log has without one."""


class AuditFailed(Exception):
    """The response is not the one of the receipt. The message states the difference."""


@command(
    epilog=examples(
        "toolgate audit --new-key ed25519",
        "toolgate audit log.jsonl --key ed25519-public:…",
        "toolgate audit - < log.jsonl",
    )
)
def audit(
    file: Annotated[
        Path | None,
        typer.Argument(
            help="JSON lines: responses, or objects with `request` and `response`. `-` is "
            "standard input."
        ),
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            envvar="TOOLGATE_RECEIPT_KEY",
            help="Key of the receipts: `ed25519-public:…`, `ed25519:…` or `hmac:…`.",
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--new-key", help="Print a new key: `ed25519` or `hmac`, and end.")
    ] = None,
) -> None:
    """Verify the receipts of responses, without a gateway.

    A receipt is valid if its signature matches, and if the calls of the response are those that
    the gateway sent. With the request, the schemas must be those that were enforced, and the
    arguments must satisfy them. The exit status is 1 if a line fails. Set TOOLGATE_OPEN_OBJECTS as
    for the gateway."""
    try:
        if kind is not None:
            private, public = new_key(kind)
            typer.echo(f"TOOLGATE_RECEIPT_KEY={private}")
            if public != private:
                typer.echo(f"toolgate audit log.jsonl --key {public}")
            return
        if file is None or key is None:
            raise CommandFailed("name a file, and the key of its receipts with --key")
        verifier = read_key(key)
        text = sys.stdin.read() if str(file) == "-" else file.read_text()
    except (InvalidReceiptKey, OSError, ValueError) as error:
        raise CommandFailed(str(error)) from error
    # JSON texts may have the other line separators of `splitlines`.
    lines = [each for each in enumerate(text.split("\n"), 1) if each[1].strip()]
    failed = 0
    for number, line in lines:
        try:
            audit_line(read_line(line), verifier, open_objects=settings().open_objects)
        except (AuditFailed, NotALine) as error:
            failed += 1
            typer.echo(f"line {number}: {error}", err=True)
    typer.echo(f"{len(lines) - failed} of {len(lines)} responses match their receipts")
    raise typer.Exit(1 if failed or not lines else 0)


def audit_line(line: LogLine, key: ReceiptKey, *, open_objects: bool = False) -> None:
    """Compare a response with its receipt. Raises AuditFailed."""
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
        served = _names_servers(line.request)
        _tools([each for each in receipt.tools if not served or each.name in tools], tools)
        for call in line.calls:
            if call.complete and call.kind == "function" and (not served or call.name in tools):
                _satisfies(call, tools)


def _calls(line: LogLine, signed: list[SignedCall]) -> None:
    """Compare the calls of the response with those of the receipt, each at its place. The Messages
    API leaves out calls that were cut, and so do some tools of the Responses API."""
    logged = {(call.choice, call.index): call for call in line.calls}
    if len(logged) != len(line.calls):
        raise AuditFailed("two choices have the same index")
    for entry in signed:
        call = logged.pop((entry.choice, entry.index), None)
        if line.hides_cut and not entry.complete and (call is None or line.api == "messages"):
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
        place, sent = (entry.id, line.response_id, entry.index), call.id or ""
        if sent.startswith((SERVER, MCP)):
            signed_id = server_id(*place, mcp=sent.startswith(MCP))
        else:
            signed_id = shown_id(*place)
    if call.is_value:
        # A search that was cut has no arguments in the response.
        signed_hash = entry.value if entry.complete else text_hash(call.text)
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
    texts = (call.text,) if call.spelling is None else (call.text, call.spelling)
    if signed_hash not in {text_hash(text) for text in texts}:
        raise AuditFailed(f"{what}: its arguments differ")
    if call.complete is not None and call.complete != entry.complete:
        stated = "complete, but it was cut" if call.complete else "cut, but it was complete"
        raise AuditFailed(f"{what}: the response states that it is {stated}")


def _requested(line: LogLine, request: Mapping[str, Any], open_objects: bool) -> dict[str, Tool]:
    """Read the tools of the request that could be called, without invalid ones: the gateway may
    have left them out (`TOOLGATE_INVALID_TOOLS=omit`), and then neither calls nor the receipt may
    name them."""
    given = {name: request[name] for name in READ if request.get(name) is not None}
    body = {"messages": NO_MESSAGES, "input": "-", "max_tokens": 1} | given
    if isinstance(body["input"], list):
        body["input"] = [each for each in body["input"] if not _is_approval(each)]
    surface = next(each for each in SURFACES if each.name == line.api)
    try:
        found = surface.parse(
            {name: value for name, value in body.items() if name in surface.parameters},
            model="",
            open_objects=open_objects,
            on_invalid=_leave_out,
        )
    except (ToolgateError, TypeError) as error:
        raise AuditFailed(f"the tools of the request can't be read: {error}") from error
    return {tool.name: tool for tool in found.tools}


def _is_approval(item: object) -> bool:
    """Return whether an item is about a call of an MCP server, whose tools a request does not
    have."""
    return isinstance(item, dict) and item.get("type") in APPROVALS


def _names_servers(request: Mapping[str, Any]) -> bool:
    """Return whether the request has tools whose schemas it does not have: those of MCP servers,
    and the searches and fetches of web pages that the gateway runs."""
    entries = request.get("tools")
    given = [each.get("type") for each in entries or () if isinstance(each, dict)]
    return bool(request.get("mcp_servers")) or any(
        isinstance(kind, str) and kind.startswith(SERVED) for kind in given
    )


def _leave_out(_name: str, _error: InvalidRequest) -> None:
    """Ignore an invalid tool. The receipt names the tools that were offered."""


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
