"""Report on tool schemas that is derived from the schemas alone, without a backend."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel

from toolgate_core.errors import SchemaNotEnforceable
from toolgate_core.schema.preparation.advice import ADVICE
from toolgate_core.schema.preparation.coverage import coverage
from toolgate_core.tools import Tool

from ..settings import Settings
from .tool_entries import parse_entries

Status = Literal["masked", "checked", "refused", "invalid", "failed"]


class KeywordReport(BaseModel):
    """A keyword that masks can't enforce. `pointer` is its location in the tool's `parameters`."""

    pointer: str
    keyword: str
    why: str
    rewrite: str


class SchemaReport(BaseModel):
    """Report on one tool.

    - masked: masks enforce the whole schema.
    - checked: `residual` keywords are validated before a call is sent. `strict: true` is refused.
    - refused, invalid: requests with this tool get a 400.
    - failed: error of the backend.
    """

    name: str
    status: Status
    engine: str | None = None
    reason: str | None = None
    code: str | None = None
    pointer: str | None = None
    compile_ms: float | None = None
    residual: list[KeywordReport] = []


def report_offline(entries: Sequence[object], settings: Settings) -> list[SchemaReport]:
    """Derives the report from the schemas, without a backend, engine and compile time."""
    tools, invalid = read_entries(entries, settings)
    return [*map(_report_by_coverage, tools), *invalid]


def lines(reports: Iterable[SchemaReport]) -> list[str]:
    """The reports as text."""
    text: list[str] = []
    for report in reports:
        about = [report.engine, f"{report.compile_ms:.1f} ms" if report.compile_ms else None]
        if report.status not in ("masked", "checked"):
            about = [report.reason]
        details = ", ".join(detail for detail in about if detail)
        text.append(f"{report.name}: {report.status}" + (f" ({details})" if details else ""))
        if report.pointer:
            text.append(f"  at {report.pointer}")
        for keyword in report.residual:
            text += [f"  {keyword.pointer}", f"    {keyword.why}", f"    {keyword.rewrite}"]
    return text


def read_entries(
    entries: Sequence[object], settings: Settings
) -> tuple[list[Tool], list[SchemaReport]]:
    tools, invalid = parse_entries(entries, settings)
    return tools, [
        SchemaReport(
            name=each.name,
            status="refused" if each.status == "refused" else "invalid",
            reason=each.reason,
            code=each.code,
            pointer=each.pointer,
        )
        for each in invalid
    ]


def _report_by_coverage(tool: Tool) -> SchemaReport:
    try:
        keywords = coverage(tool.parameters).residual
    except SchemaNotEnforceable as error:
        return SchemaReport(
            name=tool.name,
            status="refused",
            reason=error.message,
            code=error.code,
            pointer=error.pointer,
        )
    residual = [with_advice(each.pointer, each.keyword) for each in keywords]
    return SchemaReport(
        name=tool.name, status="checked" if residual else "masked", residual=residual
    )


def with_advice(pointer: str, keyword: str) -> KeywordReport:
    why, rewrite = ADVICE.get(keyword, ADVICE[""])
    return KeywordReport(pointer=pointer, keyword=keyword, why=why, rewrite=rewrite)
