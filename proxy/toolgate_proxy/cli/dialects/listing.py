"""The list of dialects, for `toolgate dialects`."""

from __future__ import annotations

import io
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from toolgate_core.dialects import mark_texts
from toolgate_core.dialects.dialect import Dialect
from toolgate_core.dialects.registry import DIALECTS, SHAPES

WIDTH = 140
COLUMNS = ("name", "models", "shape", "reasoning", "limits", "transcripts", "source")


def table() -> str:
    """All dialects, with the meanings of the shapes below."""
    rows = Table(*COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False)
    rows.columns[0].no_wrap = True
    for dialect in DIALECTS.values():
        rows.add_row(
            dialect.name,
            ", ".join(dialect.models) or "-",
            dialect.shape or "-",
            reasoning(dialect),
            " ".join(dialect.limits) or "-",
            str(len(dialect.goldens)),
            dialect.source or "-",
        )
    used = {dialect.shape for dialect in DIALECTS.values()}
    meanings = [f"{name}: {text}" for name, text in SHAPES.items() if name in used]
    return "\n".join([_text(rows), "", *meanings])


def reasoning(dialect: Dialect) -> str:
    """The argument of the chat template that turns reasoning on and off, with its values."""
    if dialect.reasoning is None:
        return "none"
    switch = dialect.reasoning.switch
    if switch is None:
        return "always"
    values = [*switch.levels] or [switch.on]
    values += [] if switch.off is None else [switch.off]
    shown = (str(each).lower() if isinstance(each, bool) else str(each) for each in values)
    return f"{switch.argument}={'|'.join(shown)}"


def objects() -> list[dict[str, Any]]:
    """All dialects, for `--json`."""
    return [
        {
            "name": dialect.name,
            "models": list(dialect.models),
            "shape": dialect.shape,
            "reasoning": reasoning(dialect),
            "parallel": dialect.calls.parallel if dialect.calls else False,
            "limits": list(dialect.limits),
            "transcripts": len(dialect.goldens),
            "source": dialect.source,
            "marks": mark_texts.evaluation_marks(dialect),
        }
        for dialect in DIALECTS.values()
    ]


def _text(rows: Table) -> str:
    out = io.StringIO()
    Console(file=out, width=WIDTH, highlight=False, markup=False).print(rows)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())
