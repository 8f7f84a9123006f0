"""Report on tool schemas: what masks enforce, what is only validated, and how to change the schema.

Backends make the report for `POST /toolgate/schema`; it then includes engine and compile time.
`toolgate schema` without a gateway derives it from the schemas alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel

from toolgate_core import wire
from toolgate_core.errors import SchemaNotEnforceable, ToolgateError
from toolgate_core.schema.preparation.advice import ADVICE
from toolgate_core.schema.preparation.coverage import coverage
from toolgate_core.tools import Tool

from ..grammars.service import grammar_key
from ..routing.deployments import Deployment
from ..settings import Settings
from ..validation.service import ValidationService
from .instances import Instance, InstanceReport, check_instances, report_instances
from .prewarm import BATCH, parse_entries

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


class BackendSchemas(BaseModel):
    backend: str
    tools: list[SchemaReport]
    instances: list[InstanceReport] = []


async def report_by_backends(
    deployments: Sequence[Deployment],
    entries: Sequence[object],
    settings: Settings,
    instances: Sequence[Instance],
    validators: ValidationService,
) -> list[BackendSchemas]:
    """Loads `entries`, tools in the form of OpenAI's `tools`, into all deployments and reports the
    results, and those of `instances`. Raises InvalidRequest for an instance without a tool."""
    tools, invalid = _parse(entries, settings)
    tool_of = check_instances(instances, tools)

    async def _report(deployment: Deployment) -> BackendSchemas:
        reports = await _report_by_backend(deployment, tools)
        found = await report_instances(deployment, instances, tool_of, validators)
        return BackendSchemas(backend=deployment.url, tools=[*reports, *invalid], instances=found)

    return list(await asyncio.gather(*map(_report, deployments)))


def report_offline(entries: Sequence[object], settings: Settings) -> list[SchemaReport]:
    """Derives the report from the schemas, without a backend, engine and compile time."""
    tools, invalid = _parse(entries, settings)
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


async def _report_by_backend(deployment: Deployment, tools: Sequence[Tool]) -> list[SchemaReport]:
    reports: list[SchemaReport] = []
    for at in range(0, len(tools), BATCH):
        batch = tools[at : at + BATCH]
        try:
            info = await deployment.backend.info()
            sources = [
                wire.GrammarSource(
                    key=grammar_key(tool, info), name=tool.name, parameters=tool.parameters
                )
                for tool in batch
            ]
            verdicts = await deployment.backend.load_grammars(sources)
        except ToolgateError as error:
            reports += [
                SchemaReport(name=tool.name, status="failed", code=error.code, reason=error.message)
                for tool in batch
            ]
            continue
        by_key = {verdict.key: verdict for verdict in verdicts}
        reports += [
            _report_by_verdict(tool, by_key[source.key])
            for tool, source in zip(batch, sources, strict=True)
        ]
    return reports


def _report_by_verdict(tool: Tool, verdict: wire.GrammarVerdict) -> SchemaReport:
    residual = [_with_advice(keyword.pointer, keyword.keyword) for keyword in verdict.residual]
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
    )


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
    residual = [_with_advice(each.pointer, each.keyword) for each in keywords]
    return SchemaReport(
        name=tool.name, status="checked" if residual else "masked", residual=residual
    )


def _with_advice(pointer: str, keyword: str) -> KeywordReport:
    why, rewrite = ADVICE.get(keyword, ADVICE[""])
    return KeywordReport(pointer=pointer, keyword=keyword, why=why, rewrite=rewrite)


def _parse(entries: Sequence[object], settings: Settings) -> tuple[list[Tool], list[SchemaReport]]:
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
