"""What the backends of a model make of tools: prewarming, reports on schemas, and instances of a
schema, whether masks let a model write them and whether they are valid."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest, ToolgateError
from toolgate_core.tools import Tool

from ...grammars.service import grammar_key
from ...routing.deployments import Deployment
from ...settings import Settings
from ...validation.service import ValidationService
from .reports import BackendSchemas, InstanceReport, SchemaReport, read_entries, report_by_verdict

BATCH = 32
"""Number of grammars per message to the backend. Grammars of requests are loaded in between."""


class Instance(BaseModel):
    """An instance of a request. `tool` may be omitted if there is one tool."""

    model_config = ConfigDict(extra="forbid")

    arguments: Any
    tool: str | None = None


async def report_by_backends(
    deployments: Sequence[Deployment],
    entries: Sequence[object],
    settings: Settings,
    instances: Sequence[Instance],
    validators: ValidationService,
) -> list[BackendSchemas]:
    """Load `entries`, tools in the form of OpenAI's `tools`, into all deployments and report the
    results, and those of `instances`. Raises InvalidRequest for an instance without a tool."""
    tools, invalid = read_entries(entries, settings)
    tool_of = check_instances(instances, tools)

    async def report(deployment: Deployment) -> BackendSchemas:
        reports = [each async for each in _reports(deployment, tools)]
        found = await report_instances(deployment, instances, tool_of, validators)
        return BackendSchemas(backend=deployment.url, tools=[*reports, *invalid], instances=found)

    return list(await asyncio.gather(*map(report, deployments)))


async def prewarm(
    deployments: Sequence[Deployment],
    entries: Sequence[object],
    settings: Settings,
    validators: ValidationService,
) -> list[dict[str, Any]]:
    """Load `entries` into all deployments before requests need them. Return what was loaded, by
    backend: each tool is ready, refused, invalid (not a tool definition) or failed (error of the
    backend)."""
    return [
        {"backend": each.backend, "tools": [_loaded(tool) for tool in each.tools]}
        for each in await report_by_backends(deployments, entries, settings, (), validators)
    ]


def _loaded(report: SchemaReport) -> dict[str, Any]:
    loaded = report.model_dump(exclude={"residual", "forms", "corrected"}, exclude_none=True)
    return loaded | ({"status": "ready"} if report.status in ("masked", "checked") else {})


async def _reports(deployment: Deployment, tools: Sequence[Tool]) -> AsyncIterator[SchemaReport]:
    """Load tools into a deployment."""
    for at in range(0, len(tools), BATCH):
        batch = tools[at : at + BATCH]
        try:
            verdicts = await deployment.grammars.prepare(batch)
        except ToolgateError as error:
            failed = {"status": "failed", "code": error.code, "reason": error.message}
            for tool in batch:
                yield SchemaReport.model_validate({"name": tool.name, **failed})
            continue
        for tool in batch:
            yield report_by_verdict(tool, verdicts[tool.hash])


def check_instances(instances: Sequence[Instance], tools: Sequence[Tool]) -> list[Tool]:
    """Return the tool of each instance. Raises InvalidRequest."""
    return [_tool_of(at, each, tools) for at, each in enumerate(instances)]


def _tool_of(at: int, instance: Instance, tools: Sequence[Tool]) -> Tool:
    param = f"instances[{at}]"
    if len(json.dumps(instance.arguments, ensure_ascii=False)) > wire.MAX_INSTANCE_LENGTH:
        raise InvalidRequest(
            f"{param} is longer than {wire.MAX_INSTANCE_LENGTH:,} characters. Shorten it.",
            param=param,
        )
    found = [tool for tool in tools if instance.tool in (None, tool.name)]
    problem = "names no tool, and there is not exactly one valid tool"
    if instance.tool is not None:
        problem = f"is for {instance.tool[:64]!r}, which is not exactly one of the valid tools"
    if len(found) != 1:
        raise InvalidRequest(f"{param} {problem}. Set `tool`.", param=f"{param}.tool")
    if found[0].custom:
        raise InvalidRequest(
            f"{param} is for a custom tool, whose input is text. Use a function.", param=param
        )
    return found[0]


async def report_instances(
    deployment: Deployment,
    instances: Sequence[Instance],
    tools: Sequence[Tool],
    validators: ValidationService,
) -> list[InstanceReport]:
    """Return one report for each instance, in order. `tools`: the tool of each instance."""
    reports: dict[int, InstanceReport] = {}
    for tool in {tool.hash: tool for tool in tools}.values():
        places = [at for at, each in enumerate(tools) if each.hash == tool.hash]
        values = [instances[at].arguments for at in places]
        walked = await _walked(deployment, tool, values)
        for at, value, report in zip(places, values, walked, strict=True):
            reports[at] = await _validated(report, tool, value, validators)
    return [reports[at] for at in sorted(reports)]


async def _walked(
    deployment: Deployment, tool: Tool, values: Sequence[Any]
) -> list[InstanceReport]:
    try:
        key = grammar_key(tool, await deployment.backend.info())
        source = wire.GrammarSource(key=key, name=tool.name, parameters=tool.parameters)
        result = await deployment.backend.walk_instances(source, values)
    except ToolgateError as error:
        return [InstanceReport(tool=tool.name, code=error.code, error=error.message)] * len(values)
    if (verdict := result.verdict).status != "ready":
        text = f"The tool is refused: {verdict.reason}."
        return [InstanceReport(tool=tool.name, code=verdict.code, error=text)] * len(values)
    return [
        InstanceReport(tool=tool.name, accepted=w.accepted, pointer=w.pointer, rule=w.rule)
        for w in result.walks
    ]


async def _validated(
    report: InstanceReport, tool: Tool, value: Any, validators: ValidationService
) -> InstanceReport:
    text = json.dumps(value, ensure_ascii=False)
    try:
        await validators.prepare([tool])
        violation = await validators.check(tool, text)
    except ToolgateError as error:
        return report.model_copy(update={"code": error.code, "error": error.message})
    if violation is None:
        return report.model_copy(update={"valid": True})
    found = {"valid": False, "pointer": violation.pointer, "rule": violation.keyword}
    return report.model_copy(update=found)
