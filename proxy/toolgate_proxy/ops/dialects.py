"""`toolgate dialects` and `toolgate parse`: the supported forms of tool calls."""

from __future__ import annotations

import json
import secrets
import string
from pathlib import Path
from typing import Annotated, Any

import typer

from toolgate_core import turn_text
from toolgate_core.dialects.dialect import Dialect
from toolgate_core.dialects.marks import evaluation_marks
from toolgate_core.dialects.registry import DIALECTS, SHAPES

from . import CommandFailed
from .cli import command, examples, table

WIDTH = 140
COLUMNS = {"name": 0}
COLUMNS |= dict.fromkeys(("models", "shape", "reasoning", "limits", "transcripts", "source"), 1)
CONTEXT = 40
"""Bytes of the text around an error that are shown on each side."""


@command()
def dialects(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON list, with the marks of each dialect.")
    ] = False,
) -> None:
    """List the supported forms of tool calls.

    With the models that use them."""
    listed = [_shown(dialect) for dialect in DIALECTS.values()]
    if as_json:
        typer.echo(json.dumps(listed, ensure_ascii=False))
        return
    rows = []
    for each in listed:
        texts = each | {"models": ", ".join(each["models"]), "limits": " ".join(each["limits"])}
        rows.append([str(texts[name] or "-") for name in COLUMNS])
    used = {dialect.shape for dialect in DIALECTS.values()}
    meanings = [f"{name}: {text}" for name, text in SHAPES.items() if name in used]
    typer.echo("\n".join([table(COLUMNS, rows, WIDTH), "", *meanings]))


def _shown(dialect: Dialect) -> dict[str, Any]:
    return {
        "name": dialect.name,
        "models": list(dialect.models),
        "shape": dialect.shape,
        "reasoning": reasoning(dialect),
        "parallel": dialect.calls.parallel if dialect.calls else False,
        "limits": list(dialect.all_limits),
        "transcripts": len(dialect.goldens),
        "source": dialect.source,
        "marks": evaluation_marks(dialect),
    }


def reasoning(dialect: Dialect) -> str:
    """Return the argument of the chat template that turns reasoning on and off, with its values."""
    if dialect.reasoning is None:
        return "none"
    switch = dialect.reasoning.switch
    if switch is None:
        return "always"
    values = [*switch.levels] or [switch.on]
    values += [] if switch.off is None else [switch.off]
    shown = (str(each).lower() if isinstance(each, bool) else str(each) for each in values)
    return f"{switch.argument}={'|'.join(shown)}"


@command(epilog=examples("toolgate parse --dialect hermes --tools tools.json < turn.txt"))
def parse(
    dialect: Annotated[str, typer.Option(help="Name of the dialect: see `toolgate dialects`.")],
    tools: Annotated[
        Path | None,
        typer.Option(
            help="JSON file with tools. Their schemas give the types of arguments; calls of other "
            "tools are refused.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    reasoning_open: Annotated[
        bool, typer.Option("--reasoning-open", help="The prompt has begun the reasoning.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON.")] = False,
) -> None:
    """Convert the text of a model's turn to a message.

    It is the message that the gateway makes of it. Reads the text from standard input, from where
    the model began. One line break at its end is ignored. If the text is not in the dialect, the
    exit status is 1, and the error has the byte offset where the text leaves the dialect."""
    from toolgate_core.errors import InvalidTools
    from toolgate_core.tools import parse_tools

    from .schema import read_tools

    if (form := DIALECTS.get(dialect)) is None:
        names = ", ".join(DIALECTS)
        raise typer.BadParameter(f"There is no dialect {dialect!r}. Use one of: {names}.")
    try:
        offered = None if tools is None else parse_tools(read_tools([tools])[0])
    except (CommandFailed, InvalidTools) as error:
        raise typer.BadParameter(str(error), param_hint="--tools") from error
    if offered is None and turn_text.needs_tools(form):
        raise typer.BadParameter(
            f"Calls of the dialect {dialect} begin with the name of a tool. Add --tools."
        )
    given = typer.get_binary_stream("stdin").read()
    try:
        text = given.decode().removesuffix("\n")
        message = body_of(turn_text.parse(text, form, offered, reasoning_open=reasoning_open))
    except UnicodeDecodeError as error:
        _print_error(given, f"The input is not UTF-8: {error.reason}.", error.start, as_json)
        raise typer.Exit(1) from error
    except turn_text.NotInDialect as error:
        _print_error(given, error.message, error.at, as_json)
        raise typer.Exit(1) from error
    typer.echo(json.dumps(message, ensure_ascii=False, indent=None if as_json else 2))


def body_of(parsed: turn_text.Message) -> dict[str, Any]:
    """Return the message of a chat completion. Calls without an id in the text get a random one."""
    calls, letters = [], string.ascii_letters + string.digits
    for call, arguments in zip(parsed.calls, parsed.arguments, strict=True):
        given = call.id or "call_" + "".join(secrets.choice(letters) for _ in range(24))
        function = {"name": call.name, "arguments": arguments}
        calls.append({"id": given, "type": "function", "function": function})
    content = parsed.content or (None if calls or parsed.reasoning else "")
    body: dict[str, Any] = {"role": "assistant", "content": content, "refusal": None}
    body |= {"reasoning_content": parsed.reasoning} if parsed.reasoning else {}
    return body | ({"tool_calls": calls} if calls else {})


def _print_error(given: bytes, message: str, at: int, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"error": {"message": message, "offset": at}}, ensure_ascii=False))
        return
    parts = (given[max(0, at - CONTEXT) : at], given[at : at + CONTEXT])
    before, after = (repr(part.decode(errors="replace")) for part in parts)
    typer.echo(f"Byte {at}: {message}\nbefore: {before}\nafter:  {after}", err=True)
