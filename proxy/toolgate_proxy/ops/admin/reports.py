"""Reports on tools, by the verdicts of a compiler or by the schemas alone. `toolgate schema` makes
them too, so this module imports no HTTP client."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Literal

from pydantic import BaseModel

from toolgate_core import wire
from toolgate_core.errors import SchemaNotEnforceable, ToolgateError
from toolgate_core.schema.preparation.checks import unsatisfiable_part
from toolgate_core.schema.preparation.prepare import prepare
from toolgate_core.tools import Tool, check_tool, parse_tools

from ...settings import Settings
from .advice import advice_on
from .tools import as_chat_tool


class SchemaReport(BaseModel):
    """Report on one tool.

    - masked: masks enforce the whole schema.
    - checked: `residual` keywords are validated before a call is sent. `strict: true` is refused.
    - refused, invalid: requests with this tool get a 400.
    - failed: error of the backend.
    """

    name: str
    status: Literal["masked", "checked", "refused", "invalid", "failed"]
    engine: str | None = None
    reason: str | None = None
    code: str | None = None
    pointer: str | None = None
    compile_ms: float | None = None
    residual: list[dict[str, str]] = []
    """Keywords that masks cannot enforce: `pointer` in the tool's `parameters`, `keyword`, `why`,
    and how to `rewrite` it."""
    forms: list[str] = []
    """The forms of calls for which this holds, if several were asked for."""
    corrected: list[dict[str, str]] = []
    """Slips in the schema that have one possible meaning: `pointer`, `keyword`, and how it is read
    (`meant`)."""

    @property
    def title(self) -> str:
        """The first line of the report as text."""
        details = [self.engine, f"{self.compile_ms:.1f} ms" if self.compile_ms else None]
        if self.status in ("refused", "invalid", "failed"):
            details = [self.reason]
        about = ", ".join(each for each in details if each)
        where = f" in {', '.join(self.forms)}" if self.forms else ""
        return f"{self.name}: {self.status}{where}" + (f" ({about})" if about else "")


class BackendSchemas(BaseModel):
    backend: str
    tools: list[SchemaReport]


def read_entries(
    entries: Iterable[object], settings: Settings
) -> tuple[list[Tool], list[SchemaReport]]:
    """Return the tools without duplicates, and reports on invalid entries. The entries have one of
    the forms in tools.py."""
    tools: dict[str, Tool] = {}
    invalid: list[SchemaReport] = []
    for at, tool_entry in enumerate(entries):
        entry = as_chat_tool(tool_entry) or tool_entry
        try:
            (tool,) = parse_tools([entry], open_objects=settings.open_objects)
            check_tool(tool)
            tools[tool.hash] = tool
        except ToolgateError as error:
            report = _refused(_name(entry) or f"tools[{at}]", error)
            report.reason = error.message.replace("tools[0]", f"tools[{at}]")  # it was parsed alone
            invalid.append(report)
    return list(tools.values()), invalid


def _name(entry: Any) -> str | None:
    """Return the name in a definition that may be invalid."""
    name = None
    with suppress(AttributeError, KeyError, TypeError):
        name = entry["custom" if entry.get("type") == "custom" else "function"]["name"]
    return name if isinstance(name, str) else None


def _refused(name: str, error: ToolgateError) -> SchemaReport:
    about: dict[str, Any] = {"name": name, "reason": error.message, "code": error.code}
    if isinstance(error, SchemaNotEnforceable):
        return SchemaReport(**about, status="refused", pointer=error.pointer)
    return SchemaReport(**about, status="invalid")


def report_by_verdict(tool: Tool, verdict: wire.GrammarVerdict) -> SchemaReport:
    names = {"reason", "code", "pointer", "compile_ms"}
    if verdict.status != "ready":
        fields = verdict.model_dump(include=names)
        return SchemaReport(name=tool.name, status="refused", corrected=_corrected(tool), **fields)
    fields = verdict.model_dump(include={*names, "engine"})
    return _enforced(tool, verdict.residual).model_copy(update=fields)


def report_by_coverage(tool: Tool) -> SchemaReport:
    """Return what masks enforce as far as the keywords of the schema tell, without a compiler."""
    try:
        keywords = prepare(tool.parameters).residual
        if (pointer := unsatisfiable_part(tool.parameters)) is not None:
            raise SchemaNotEnforceable("No value satisfies the schema.", pointer=pointer)
    except SchemaNotEnforceable as error:
        return _refused(tool.name, error)
    return _enforced(tool, keywords)


def _enforced(tool: Tool, residual: Iterable[Any]) -> SchemaReport:
    """`residual`: the places of keywords that masks cannot enforce."""
    keywords = []
    for keyword in residual:
        why, rewrite = advice_on(tool.parameters, keyword.pointer, keyword.keyword)
        place = {"pointer": keyword.pointer, "keyword": keyword.keyword}
        keywords.append({**place, "why": why, "rewrite": rewrite})
    return SchemaReport(
        name=tool.name,
        status="checked" if keywords else "masked",
        residual=keywords,
        corrected=_corrected(tool),
    )


def _corrected(tool: Tool) -> list[dict[str, str]]:
    return [{**vars(each)} for each in tool.corrections]


def lines(reports: Iterable[SchemaReport]) -> list[str]:
    """Return the reports as text."""
    text: list[str] = []
    for report in reports:
        text.append(report.title)
        if report.pointer:
            text.append(f"  at {report.pointer}")
        text += [f"  {each['pointer']} is read as: {each['meant']}" for each in report.corrected]
        for keyword in report.residual:
            text.append(f"  {keyword['pointer']}")
            text += [f"    {keyword['why']}", f"    {keyword['rewrite']}"]
    return text
