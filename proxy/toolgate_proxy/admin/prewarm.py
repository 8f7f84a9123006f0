"""Prewarming: loads grammars into the backends of a model before requests need them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from pydantic import BaseModel

from toolgate_core.errors import ToolgateError
from toolgate_core.grammar_key import tool_hash
from toolgate_core.tools import Tool

from ..grammars.redis_cache import RedisCache
from ..grammars.service import GrammarResult, grammar_key
from ..routing.deployments import Deployment
from ..settings import Settings
from .tools import ToolReport, parse_entries

logger = logging.getLogger(__name__)

BATCH = 32
"""Number of grammars per message to the backend. Grammars of requests are loaded in between."""
ATTEMPTS = 60
ATTEMPT_PAUSE = 5.0
"""Seconds between attempts. A backend may start minutes after its gateway."""


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


async def prewarm_most_used(
    deployments: Sequence[Deployment], cache: RedisCache, limit: int
) -> None:
    """Load the grammars that all gateways used most recently, into the backends that they were
    compiled for. Errors of backends are not raised: missing grammars are loaded on demand."""
    records = await cache.most_used(limit)
    tools = [
        Tool(each.name, each.parameters, tool_hash(each.name, each.parameters), {})
        for each in records  # including content formats, whose name is empty
        if each.verdict.status == "ready"
    ]
    keys = {record.key for record in records}
    if tools:
        await asyncio.gather(*(_prewarm_used(each, tools, keys) for each in deployments))


async def _prewarm_used(deployment: Deployment, tools: Sequence[Tool], keys: set[str]) -> None:
    for _ in range(ATTEMPTS):
        try:
            info = await deployment.backend.info()
            matching = [tool for tool in tools if grammar_key(tool, info) in keys]
            matching = matching[: info.limits.max_grammars // 2]
            for batch in batches(matching):
                await deployment.grammars.prepare(batch, info)
            logger.info("%d grammars were prewarmed at %s.", len(matching), deployment.url)
            return
        except ToolgateError:
            await asyncio.sleep(ATTEMPT_PAUSE)


async def _prewarm_one(deployment: Deployment, tools: Sequence[Tool]) -> list[ToolReport]:
    reports: list[ToolReport] = []
    for batch in batches(tools):
        try:
            info = await deployment.backend.info()
            results = await deployment.grammars.prepare(batch, info)
        except ToolgateError as error:
            reports += [
                ToolReport(name=tool.name, status="failed", code=error.code, reason=error.message)
                for tool in batch
            ]
            continue
        reports += [_report(tool, results[tool.hash]) for tool in batch]
    return reports


def _report(tool: Tool, result: GrammarResult) -> ToolReport:
    verdict = result.verdict
    return ToolReport(
        name=tool.name,
        status=verdict.status,
        tier=result.tier,
        engine=verdict.engine,
        reason=verdict.reason,
        code=verdict.code,
        pointer=verdict.pointer,
        compile_ms=verdict.compile_ms,
    )


def batches(tools: Sequence[Tool]) -> list[Sequence[Tool]]:
    """Return the tools in portions that a backend loads at a time."""
    return [tools[at : at + BATCH] for at in range(0, len(tools), BATCH)]
