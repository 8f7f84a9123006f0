"""`toolgate dialects`: the supported forms of tool calls."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from toolgate_core.dialects.dialect import Dialect
from toolgate_core.dialects.marks import evaluation_marks
from toolgate_core.dialects.registry import DIALECTS, SHAPES

from .cli import command, table

WIDTH = 140
COLUMNS = {"name": 0}
COLUMNS |= dict.fromkeys(("models", "shape", "reasoning", "limits", "transcripts", "source"), 1)


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
    texts = (str(each).lower() if isinstance(each, bool) else str(each) for each in values)
    return f"{switch.argument}={'|'.join(texts)}"
