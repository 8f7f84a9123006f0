"""Tables in Markdown, whole or line by line."""

from collections.abc import Iterable, Sequence


def table(names: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    return "\n".join((head(names), *map(row, rows)))


def head(names: Sequence[str]) -> str:
    """The first two lines of a table."""
    return f"{row(names)}\n|{'---|' * len(names)}"


def row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
