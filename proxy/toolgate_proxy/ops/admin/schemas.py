"""Instances of a tool's schema: whether masks let a model write them, and their validity."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest, ToolgateError
from toolgate_core.tools import Tool

from ...grammars.service import grammar_key
from ...routing.deployments import Deployment
from ...settings import Settings
from ...validation.service import ValidationService
from .prewarm import verdicts_at
from .reports import SchemaReport, read_entries, report_by_verdict

WHY = {
    "member_order": "Masks require the schema's order of members.",
    "number_form": "Masks have no exponents and no fraction of zero.",
    "closed_object": "Objects that declare properties are closed unless the schema sets "
    "additionalProperties. TOOLGATE_OPEN_OBJECTS=1 opens them.",
}


class Instance(BaseModel):
    """An instance of a request. `tool` may be omitted if there is one tool."""

    model_config = ConfigDict(extra="forbid")

    arguments: Any
    tool: str | None = None


class InstanceReport(BaseModel):
    """Report on one instance.

    `pointer` and `rule` are those of the first violation if the instance is not valid, and
    otherwise of the first token that masks forbid. `rule` is then `member_order`, `number_form`,
    `closed_object` or a keyword of the schema. `accepted` is None if `error` says why it is
    unknown.
    """

    tool: str
    accepted: bool | None = None
    valid: bool | None = None
    pointer: str | None = None
    rule: str | None = None
    code: str | None = None
    error: str | None = None


def check_instances(instances: Sequence[Instance], tools: Sequence[Tool]) -> list[Tool]:
    """Return the tool of each instance. Raises InvalidRequest."""
    by_name: dict[str, list[Tool]] = {}
    for tool in tools:
        by_name.setdefault(tool.name, []).append(tool)
    return [_tool_of(at, each, by_name) for at, each in enumerate(instances)]


def _tool_of(at: int, instance: Instance, by_name: dict[str, list[Tool]]) -> Tool:
    param = f"instances[{at}]"
    if len(json.dumps(instance.arguments, ensure_ascii=False)) > wire.MAX_INSTANCE_LENGTH:
        raise InvalidRequest(
            f"{param} is longer than {wire.MAX_INSTANCE_LENGTH:,} characters. Shorten it.",
            param=param,
        )
    if instance.tool is None:
        found = [tool for tools in by_name.values() for tool in tools]
        problem = "names no tool, and there is not exactly one valid tool"
    else:
        found = by_name.get(instance.tool, [])
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
        info = await deployment.backend.info()
        source = wire.GrammarSource(
            key=grammar_key(tool, info), name=tool.name, parameters=tool.parameters
        )
        result = await deployment.backend.walk_instances(source, values)
    except ToolgateError as error:
        failed = InstanceReport(tool=tool.name, code=error.code, error=error.message)
        return [failed.model_copy() for _ in values]
    if result.verdict.status != "ready":
        refused = InstanceReport(
            tool=tool.name,
            code=result.verdict.code,
            error=f"The tool is refused: {result.verdict.reason}.",
        )
        return [refused.model_copy() for _ in values]
    return [
        InstanceReport(tool=tool.name, accepted=w.accepted, pointer=w.pointer, rule=w.rule)
        for w in result.walks
    ]


async def _validated(
    report: InstanceReport, tool: Tool, value: Any, validators: ValidationService
) -> InstanceReport:
    text = json.dumps(value, ensure_ascii=False)
    try:
        await validators.prepare([tool], {tool.name: "tools"})
        violation = await validators.check(tool, text)
    except ToolgateError as error:
        return report.model_copy(update={"code": error.code, "error": error.message})
    if violation is None:
        return report.model_copy(update={"valid": True})
    found = {"valid": False, "pointer": violation.pointer, "rule": violation.keyword}
    return report.model_copy(update=found)


def as_line(report: InstanceReport) -> str:
    """Write a report as text."""
    if report.error:
        return f"{report.tool}: {report.error}"
    accepted = "masks allow it" if report.accepted else "masks forbid it"
    valid = "valid" if report.valid else "not valid"
    where = f": {report.rule} at {report.pointer or 'the root'}" if report.rule is not None else ""
    why = f". {WHY[report.rule]}" if report.rule in WHY else ""
    return f"{report.tool}: {accepted}, {valid}{where}{why}"


def as_json_line(report: InstanceReport) -> str:
    """Write a report as one line of JSON."""
    names = {"accepted", "valid", "pointer", "rule"}
    if report.error:
        names |= {"code", "error"}
    return json.dumps(report.model_dump(include=names), ensure_ascii=False)


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
    """Load `entries`, tools in the form of OpenAI's `tools`, into all deployments and report the
    results, and those of `instances`. Raises InvalidRequest for an instance without a tool."""
    tools, invalid = read_entries(entries, settings)
    tool_of = check_instances(instances, tools)

    async def report(deployment: Deployment) -> BackendSchemas:
        reports = await _report_by_backend(deployment, tools)
        found = await report_instances(deployment, instances, tool_of, validators)
        return BackendSchemas(backend=deployment.url, tools=[*reports, *invalid], instances=found)

    return list(await asyncio.gather(*map(report, deployments)))


async def _report_by_backend(deployment: Deployment, tools: Sequence[Tool]) -> list[SchemaReport]:
    return [_report(tool, found) async for tool, found in verdicts_at(deployment, tools)]


def _report(tool: Tool, found: wire.GrammarVerdict | ToolgateError) -> SchemaReport:
    if isinstance(found, ToolgateError):
        return SchemaReport(name=tool.name, status="failed", code=found.code, reason=found.message)
    return report_by_verdict(tool, found)
