"""Prewarming: loads grammars into the backends of a model before requests need them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

from pydantic import BaseModel

from toolgate_core import wire
from toolgate_core.errors import ToolgateError
from toolgate_core.tools import Tool

from ...routing.deployments import Deployment
from ...settings import Settings
from .tools import ToolReport, parse_entries

BATCH = 32
"""Number of grammars per message to the backend. Grammars of requests are loaded in between."""


class BackendReport(BaseModel):
    backend: str
    tools: list[ToolReport]


async def prewarm(
    deployments: Sequence[Deployment], entries: Sequence[object], settings: Settings
) -> list[BackendReport]:
    """Load `entries`, tools in the form of OpenAI's `tools`, into all deployments."""
    tools, invalid = parse_entries(entries, settings)
    backends = await asyncio.gather(*(_prewarm_one(each, tools) for each in deployments))
    return [
        BackendReport(backend=each.url, tools=[*reports, *invalid])
        for each, reports in zip(deployments, backends, strict=True)
    ]


async def _prewarm_one(deployment: Deployment, tools: Sequence[Tool]) -> list[ToolReport]:
    return [_report(tool, found) async for tool, found in verdicts_at(deployment, tools)]


async def verdicts_at(
    deployment: Deployment, tools: Sequence[Tool]
) -> AsyncIterator[tuple[Tool, wire.GrammarVerdict | ToolgateError]]:
    """Load tools that passed `check_tool` into a deployment. Yield the verdict on each, or the
    error of the backend."""
    for at in range(0, len(tools), BATCH):
        batch = tools[at : at + BATCH]
        try:
            info = await deployment.backend.info()
            verdicts = await deployment.grammars.prepare(batch, info)
        except ToolgateError as error:
            for tool in batch:
                yield tool, error
            continue
        for tool in batch:
            yield tool, verdicts[tool.hash]


def _report(tool: Tool, found: wire.GrammarVerdict | ToolgateError) -> ToolReport:
    if isinstance(found, ToolgateError):
        return ToolReport(name=tool.name, status="failed", code=found.code, reason=found.message)
    names = {"status", "engine", "reason", "code", "pointer", "compile_ms"}
    return ToolReport(name=tool.name, **found.model_dump(include=names))
