"""Reports on tool schemas: by the verdicts of a compiler, or derived from the schemas alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel

from toolgate_core import wire
from toolgate_core.errors import SchemaNotEnforceable
from toolgate_core.schema.preparation.advice import advice_on
from toolgate_core.schema.preparation.checks import unsatisfiable_part
from toolgate_core.schema.preparation.prepare import prepare
from toolgate_core.tools import Tool

from ...settings import Settings
from .tools import parse_entries

Status = Literal["masked", "checked", "refused", "invalid", "failed"]


class KeywordReport(BaseModel):
    """A keyword that masks can't enforce. `pointer` is its location in the tool's `parameters`."""

    pointer: str
    keyword: str
    why: str
    rewrite: str


class CorrectionReport(BaseModel):
    """A slip in the schema that has one possible meaning, and is read as it was meant."""

    pointer: str
    keyword: str
    meant: str


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
    forms: list[str] = []
    """The forms of calls for which this holds, if several were asked for."""
    corrected: list[CorrectionReport] = []


def report_by_verdict(tool: Tool, verdict: wire.GrammarVerdict) -> SchemaReport:
    residual = [with_advice(tool, keyword.pointer, keyword.keyword) for keyword in verdict.residual]
    ready = verdict.status == "ready"
    return SchemaReport(
        name=tool.name,
        status=("checked" if residual else "masked") if ready else "refused",
        engine=verdict.engine if ready else None,
        reason=verdict.reason,
        code=verdict.code,
        pointer=verdict.pointer,
        compile_ms=verdict.compile_ms,
        residual=residual,
        corrected=corrected_in(tool),
    )


def lines(reports: Iterable[SchemaReport]) -> list[str]:
    """Return the reports as text."""
    text: list[str] = []
    for report in reports:
        about = [report.engine, f"{report.compile_ms:.1f} ms" if report.compile_ms else None]
        if report.status not in ("masked", "checked"):
            about = [report.reason]
        details = ", ".join(detail for detail in about if detail)
        where = f" in {', '.join(report.forms)}" if report.forms else ""
        text.append(f"{report.name}: {report.status}{where}" + (f" ({details})" if details else ""))
        if report.pointer:
            text.append(f"  at {report.pointer}")
        text += [f"  {each.pointer} is read as: {each.meant}" for each in report.corrected]
        for keyword in report.residual:
            text += [f"  {keyword.pointer}", f"    {keyword.why}", f"    {keyword.rewrite}"]
    return text


def read_entries(
    entries: Sequence[object], settings: Settings
) -> tuple[list[Tool], list[SchemaReport]]:
    """Return the tools, and reports on invalid entries."""
    tools, invalid = parse_entries(entries, settings)
    return tools, [SchemaReport.model_validate(each.model_dump()) for each in invalid]


def report_by_coverage(tool: Tool) -> SchemaReport:
    """Return what masks enforce as far as the keywords of the schema tell, without a compiler."""
    try:
        keywords = prepare(tool.parameters).residual
        if (pointer := unsatisfiable_part(tool.parameters)) is not None:
            raise SchemaNotEnforceable("No value satisfies the schema.", pointer=pointer)
    except SchemaNotEnforceable as error:
        return SchemaReport(
            name=tool.name,
            status="refused",
            reason=error.message,
            code=error.code,
            pointer=error.pointer,
        )
    residual = [with_advice(tool, each.pointer, each.keyword) for each in keywords]
    return SchemaReport(
        name=tool.name,
        status="checked" if residual else "masked",
        residual=residual,
        corrected=corrected_in(tool),
    )


def corrected_in(tool: Tool) -> list[CorrectionReport]:
    return [CorrectionReport(**vars(each)) for each in tool.corrections]


def with_advice(tool: Tool, pointer: str, keyword: str) -> KeywordReport:
    why, rewrite = advice_on(tool.parameters, pointer, keyword)
    return KeywordReport(pointer=pointer, keyword=keyword, why=why, rewrite=rewrite)
