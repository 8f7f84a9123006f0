"""Who holds each tool's schema, what is left to the check, and how to have it masked.

Asked of backends (`POST /toolgate/schema`), which know the engine and the cost, or worked out here
from the schema alone (`toolgate schema` without a gateway).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel

from toolgate_core import wire
from toolgate_core.errors import SchemaNotEnforceable, ToolgateError
from toolgate_core.schema.advice import ADVICE
from toolgate_core.schema.coverage import coverage
from toolgate_core.tools import Tool

from ..grammars.service import grammar_key
from ..routing.deployments import Deployment
from ..settings import Settings
from .prewarm import BATCH, parsed

Status = Literal["masked", "checked", "refused", "invalid", "failed"]


class OpenKeyword(BaseModel):
    """A keyword that no mask holds. `pointer` leads to it in the tool's `parameters`."""

    pointer: str
    keyword: str
    why: str
    rewrite: str


class SchemaReport(BaseModel):
    """One tool. masked: wholly by masks; checked: calls are withheld until `residual` has been
    checked, and `strict: true` is refused; refused and invalid: a 400; failed: no answer."""

    name: str
    status: Status
    engine: str | None = None
    reason: str | None = None
    code: str | None = None
    pointer: str | None = None
    compile_ms: float | None = None
    residual: list[OpenKeyword] = []


class BackendSchemas(BaseModel):
    backend: str
    tools: list[SchemaReport]


async def ask(
    deployments: Sequence[Deployment], entries: Sequence[object], settings: Settings
) -> list[BackendSchemas]:
    """What each backend makes of `entries`, tools as in OpenAI's `tools`. They are loaded there."""
    tools, invalid = _parsed(entries, settings)
    told = await asyncio.gather(*(_ask_one(each, tools) for each in deployments))
    return [
        BackendSchemas(backend=each.url, tools=[*reports, *invalid])
        for each, reports in zip(deployments, told, strict=True)
    ]


def alone(entries: Sequence[object], settings: Settings) -> list[SchemaReport]:
    """The same without a backend: neither engine nor cost is known."""
    tools, invalid = _parsed(entries, settings)
    return [*map(_surveyed, tools), *invalid]


def lines(reports: Iterable[SchemaReport]) -> list[str]:
    """The reports in words."""
    said: list[str] = []
    for report in reports:
        about = [report.engine, f"{report.compile_ms:.1f} ms" if report.compile_ms else None]
        if report.status not in ("masked", "checked"):
            about = [report.reason]
        details = ", ".join(detail for detail in about if detail)
        said.append(f"{report.name}: {report.status}" + (f" ({details})" if details else ""))
        if report.pointer:
            said.append(f"  at {report.pointer}")
        for keyword in report.residual:
            said += [f"  {keyword.pointer}", f"    {keyword.why}", f"    {keyword.rewrite}"]
    return said


async def _ask_one(deployment: Deployment, tools: Sequence[Tool]) -> list[SchemaReport]:
    told: list[SchemaReport] = []
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
            told += [
                SchemaReport(name=tool.name, status="failed", code=error.code, reason=error.message)
                for tool in batch
            ]
            continue
        by_key = {verdict.key: verdict for verdict in verdicts}
        told += [
            _judged(tool, by_key[source.key]) for tool, source in zip(batch, sources, strict=True)
        ]
    return told


def _judged(tool: Tool, verdict: wire.GrammarVerdict) -> SchemaReport:
    residual = [_open(keyword.pointer, keyword.keyword) for keyword in verdict.residual]
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


def _surveyed(tool: Tool) -> SchemaReport:
    try:
        found = coverage(tool.parameters).residual
    except SchemaNotEnforceable as error:
        return SchemaReport(
            name=tool.name,
            status="refused",
            reason=error.message,
            code=error.code,
            pointer=error.pointer,
        )
    residual = [_open(place.pointer, place.keyword) for place in found]
    return SchemaReport(
        name=tool.name, status="checked" if residual else "masked", residual=residual
    )


def _open(pointer: str, keyword: str) -> OpenKeyword:
    why, rewrite = ADVICE.get(keyword, ADVICE[""])
    return OpenKeyword(pointer=pointer, keyword=keyword, why=why, rewrite=rewrite)


def _parsed(entries: Sequence[object], settings: Settings) -> tuple[list[Tool], list[SchemaReport]]:
    tools, invalid = parsed(entries, settings)
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
