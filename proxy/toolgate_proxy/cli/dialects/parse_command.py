"""The command `toolgate parse`: reads its input, prints the message or the error."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from toolgate_core.dialects.dialect import Dialect
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import InvalidTools
from toolgate_core.tools import Tool, parse_tools

from ...admin.playground.turn_text import NotInDialect, needs_tools, parse
from ..tools.admin_client import AdminRequestFailed
from ..tools.tool_files import read_tools

CONTEXT = 40
"""Bytes of the text around an error that are shown on each side."""


def run(given: bytes, name: str, *, tools: Path | None, reasoning_open: bool, as_json: bool) -> int:
    """The exit status. Raises typer.BadParameter."""
    dialect = _dialect(name)
    offered = None if tools is None else _tools(tools)
    if offered is None and needs_tools(dialect):
        raise typer.BadParameter(
            f"Calls of the dialect {name} begin with the name of a tool. Add --tools."
        )
    try:
        text = given.decode()
    except UnicodeDecodeError as error:
        return _fail(given, f"The input is not UTF-8: {error.reason}.", error.start, as_json)
    try:
        message = parse(
            text.removesuffix("\n"), dialect, offered, reasoning_open=reasoning_open
        ).body()
    except NotInDialect as error:
        return _fail(given, error.message, error.at, as_json)
    typer.echo(json.dumps(message, ensure_ascii=False, indent=None if as_json else 2))
    return 0


def _fail(given: bytes, message: str, at: int, as_json: bool) -> int:
    if as_json:
        typer.echo(json.dumps({"error": {"message": message, "offset": at}}, ensure_ascii=False))
        return 1
    before, after = given[max(0, at - CONTEXT) : at], given[at : at + CONTEXT]
    shown = (repr(part.decode(errors="replace")) for part in (before, after))
    typer.echo(f"Byte {at}: {message}\nbefore: {next(shown)}\nafter:  {next(shown)}", err=True)
    return 1


def _dialect(name: str) -> Dialect:
    try:
        return DIALECTS[name]
    except KeyError:
        names = ", ".join(DIALECTS)
        raise typer.BadParameter(f"There is no dialect {name!r}. Use one of: {names}.") from None


def _tools(path: Path) -> tuple[Tool, ...]:
    try:
        return parse_tools(read_tools([path]).tools)
    except (AdminRequestFailed, InvalidTools) as error:
        raise typer.BadParameter(str(error), param_hint="--tools") from error
