"""The tables of a run's results."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from tests.support.markdown import table

from .engines import ENGINES, OPEN

Row = dict[str, Any]
REAL = ("maskbench", "bfcl")
EVERY = (*REAL, "suite")
FORMS = {
    "given": "as given",
    "shuffled": "members shuffled",
    "compact": "without white space",
}
CAUSES = {
    "white_space": "white space other than the dialect's",
    "member_order": "members in another order than the schema's",
    "number_form": "a number with an exponent or a fraction of zero",
    "closed_object": "an undeclared member of an object that declares properties",
}
ALLOWED = (
    "toolgate, masked",
    "toolgate, left to validation",
    f"{OPEN}, masked",
    f"{OPEN}, left to validation",
    "xgrammar",
    "llguidance",
)


def document(rows: Sequence[Row]) -> str:
    """In Markdown. In parentheses: schemas."""
    engines = ["", *ENGINES]
    of_form = ("white_space", "member_order")
    sections = {
        "Overview": table(engines, _overview(rows)),
        "Wrongly forbidden: valid instances of real schemas, as given": table(
            engines, _forbidden(rows, sources=REAL, forms=("given",))
        ),
        "Wrongly forbidden: all, but for white space and the order of members": table(
            engines, _forbidden(rows, sources=EVERY, without=of_form)
        ),
        "Wrongly allowed, by the keyword that the text violates": table(
            ["", *ALLOWED], _allowed(rows)
        ),
    }
    return "\n\n".join(f"## {title}\n\n{text}" for title, text in sections.items()) + "\n"


def _overview(rows: Sequence[Row]) -> Iterator[Sequence[object]]:
    by = [[row for row in rows if row["engine"] == engine] for engine in ENGINES]
    lines: dict[str, Any] = {
        "schemas": len,
        "refused by the engine": lambda some: sum("refused" in row for row in some),
        "over the limit on time, or crashed": lambda some: sum("failed" in row for row in some),
        "some keywords left to validation": partial(_sum, key="residual"),
    }
    for sources, what in ((REAL, "real schemas"), (("suite",), "test suite")):
        for form, name in FORMS.items():
            lines[f"{what}, valid instances {name}: refused"] = partial(
                _refused, sources=sources, form=form
            )
    lines |= {
        "valid neighbours: refused": lambda some: _rate(
            _count(some, EVERY, "forbidden", "neighbour"), _sum(some, "valid_values")
        ),
        "invalid neighbours: allowed": partial(_neighbours, residual=False),
        "the same, schemas with keywords left to validation": partial(_neighbours, residual=True),
        "walks": partial(_sum, key="walks"),
        "walks that did not end": partial(_sum, key="unended"),
        "walks that ended invalid": lambda some: _count(
            some, EVERY, "allowed", "walk", residual=False
        ),
    }
    for name, cell in lines.items():
        yield [name, *map(cell, by)]


def _refused(rows: Sequence[Row], sources: Sequence[str], form: str) -> str:
    valid = sum(row.get("valid", {}).get(form, 0) for row in rows if row["source"] in sources)
    return _rate(_count(rows, sources, "forbidden", form), valid)


def _neighbours(rows: Sequence[Row], *, residual: bool) -> str:
    """The invalid ones that masks allow, of schemas with or without residual keywords."""
    invalid = _sum([r for r in rows if bool(r.get("residual")) is residual], "invalid_values")
    return _rate(_count(rows, EVERY, "allowed", "neighbour", residual=residual), invalid)


def _sum(rows: Iterable[Row], key: str) -> int:
    return sum(row.get(key, 0) for row in rows)


def _count(
    rows: Iterable[Row],
    sources: Sequence[str],
    side: str,
    form: str,
    residual: bool | None = None,
) -> int:
    return sum(
        found["side"] == side and found["form"] == form
        for row in rows
        if row["source"] in sources and residual in (None, bool(row.get("residual")))
        for found in row.get("found", ())
    )


def _rate(part: int, whole: int) -> str:
    return f"{part:,} of {whole:,} ({part / whole:.2%})" if whole else "–"


def _forbidden(
    rows: Sequence[Row],
    sources: Sequence[str],
    forms: Sequence[str] | None = None,
    without: Sequence[str] = (),
) -> Iterator[Sequence[object]]:
    def named(row: Row, found: Row) -> tuple[str, str] | None:
        if found["side"] != "forbidden" or row["source"] not in sources:
            return None
        if (forms and found["form"] not in forms) or found["kind"] in without:
            return None
        return CAUSES.get(found["kind"]) or f"`{found['keyword']}`", row["engine"]

    yield from _tabulated(rows, named, ENGINES)


def _allowed(rows: Sequence[Row]) -> Iterator[Sequence[object]]:
    def named(row: Row, found: Row) -> tuple[str, str] | None:
        if found["side"] != "allowed":
            return None
        cause = f"`{found['keyword']}`" if found["kind"] == "keyword" else found["kind"]
        if row["engine"] not in ("toolgate", OPEN):
            return cause, row["engine"]
        return cause, f"{row['engine']}, {'left to validation' if row['residual'] else 'masked'}"

    yield from _tabulated(rows, named, ALLOWED)


def _tabulated(
    rows: Sequence[Row], named: Any, columns: Sequence[str]
) -> Iterator[Sequence[object]]:
    """The texts of each cause in each column, and how many schemas they belong to."""
    schemas: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    totals: Counter[str] = Counter()
    for row in rows:
        for found in row.get("found", ()):
            if (place := named(row, found)) is not None:
                schemas[place[0]][place[1]].append(row["id"])
                totals[place[1]] += 1
    for cause in sorted(schemas, key=lambda name: (name.startswith("`"), name)):
        texts = (schemas[cause][column] for column in columns)
        yield [cause, *(f"{len(ids):,} ({len({*ids}):,})" if ids else 0 for ids in texts)]
    yield ["**all**", *(f"**{totals[column]:,}**" for column in columns)]
