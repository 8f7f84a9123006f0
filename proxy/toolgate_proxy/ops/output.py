"""What all commands print alike: errors and tables."""

from __future__ import annotations

import io

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table


class CommandFailed(Exception):
    """Ends a command with exit status 2. The message says what failed and what to do."""


def new_table(*columns: str) -> Table:
    """Make a table with a line below its head."""
    return Table(*columns, box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))


def table_text(table: Table, width: int) -> str:
    """Return a table as lines of at most `width` columns."""
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, markup=False).print(table)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())
