"""Report on tool schemas: what masks enforce, what is only validated, and how to change the schema.

Backends make the report for `POST /toolgate/schema`; it then includes engine and compile time.
`toolgate schema` without a gateway derives it from the schemas alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pydantic import BaseModel

from toolgate_core import wire
from toolgate_core.errors import ToolgateError
from toolgate_core.tools import Tool

from ..grammars.service import grammar_key
from ..routing.deployments import Deployment
from ..settings import Settings
from ..validation.service import ValidationService
from .instances import Instance, InstanceReport, check_instances, report_instances
from .prewarm import BATCH
from .schema_coverage import SchemaReport, read_entries, report_by_verdict


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
    tools, invalid = read_entries(entries, settings)
    tool_of = check_instances(instances, tools)

    async def _report(deployment: Deployment) -> BackendSchemas:
        reports = await _report_by_backend(deployment, tools)
        found = await report_instances(deployment, instances, tool_of, validators)
        return BackendSchemas(backend=deployment.url, tools=[*reports, *invalid], instances=found)

    return list(await asyncio.gather(*map(_report, deployments)))


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
            report_by_verdict(tool, by_key[source.key])
            for tool, source in zip(batch, sources, strict=True)
        ]
    return reports
