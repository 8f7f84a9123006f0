"""Loading tool sets into every backend of a model before anyone asks for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import BaseModel

from toolgate_core.errors import SchemaNotEnforceable, ToolgateError
from toolgate_core.grammar_key import tool_hash
from toolgate_core.tools import Tool, parse_tools

from ..grammars.loader import GrammarResult
from ..grammars.redis_cache import RedisCache
from ..grammars.service import check_tool, grammar_key
from ..routing.deployments import Deployment
from ..settings import Settings

logger = logging.getLogger(__name__)

BATCH = 32
"""Grammars asked for at once: other requests' grammars go in between."""
ATTEMPTS = 60
ATTEMPT_PAUSE = 5.0
"""A backend may start minutes after its gateway."""


class ToolReport(BaseModel):
    """What became of one tool at one backend."""

    name: str
    status: str
    """ready, refused, invalid (no tool at all) or failed (the backend did not answer)."""
    tier: str | None = None
    engine: str | None = None
    reason: str | None = None
    code: str | None = None
    pointer: str | None = None
    compile_ms: float | None = None


class BackendReport(BaseModel):
    backend: str
    tools: list[ToolReport]


async def prewarm(
    deployments: Sequence[Deployment], entries: Sequence[object], settings: Settings
) -> list[BackendReport]:
    """`entries`: tools as in OpenAI's `tools`, of any number of sets."""
    tools, invalid = parsed(entries, settings)
    backends = await asyncio.gather(*(_prewarm_one(each, tools) for each in deployments))
    return [
        BackendReport(backend=each.url, tools=[*told, *invalid])
        for each, told in zip(deployments, backends, strict=True)
    ]


async def prewarm_most_used(
    deployments: Sequence[Deployment], fleet: RedisCache, limit: int
) -> None:
    """Loads what the fleet used most of late, wherever it fits the backend. Never raises for a
    backend's sake: what could not be loaded is loaded when it is asked for."""
    records = await fleet.most_used(limit)
    tools = [
        Tool(each.name, each.parameters, tool_hash(each.name, each.parameters), {})
        for each in records  # formats of content among them, which have no name
        if each.verdict.status == "ready"
    ]
    keys = {record.key for record in records}
    if tools:
        await asyncio.gather(*(_prewarm_used(each, tools, keys) for each in deployments))


async def _prewarm_used(deployment: Deployment, tools: Sequence[Tool], keys: set[str]) -> None:
    for _ in range(ATTEMPTS):
        try:
            info = await deployment.backend.info()
            fitting = [tool for tool in tools if grammar_key(tool, info) in keys]
            for batch in _batches(fitting[: info.limits.max_grammars // 2]):
                await deployment.grammars.prepare(batch, info)
            logger.info("%d grammars are loaded ahead at %s.", len(fitting), deployment.url)
            return
        except ToolgateError:
            await asyncio.sleep(ATTEMPT_PAUSE)


async def _prewarm_one(deployment: Deployment, tools: Sequence[Tool]) -> list[ToolReport]:
    told: list[ToolReport] = []
    for batch in _batches(tools):
        try:
            info = await deployment.backend.info()
            found = await deployment.grammars.prepare(batch, info)
        except ToolgateError as error:
            told += [
                ToolReport(name=tool.name, status="failed", code=error.code, reason=error.message)
                for tool in batch
            ]
            continue
        told += [_report(tool, found[tool.hash]) for tool in batch]
    return told


def parsed(entries: Iterable[object], settings: Settings) -> tuple[list[Tool], list[ToolReport]]:
    """The tools, each once, and the reports on what is none."""
    tools: dict[str, Tool] = {}
    invalid: list[ToolReport] = []
    for at, entry in enumerate(entries):
        try:
            (tool,) = parse_tools([entry], open_objects=settings.open_objects)
            check_tool(tool, settings.schema_limits, f"tools[{at}].function.parameters")
            tools[tool.hash] = tool
        except SchemaNotEnforceable as error:
            invalid.append(_invalid(entry, "refused", error, error.pointer))
        except ToolgateError as error:
            invalid.append(_invalid(entry, "invalid", error))
    return list(tools.values()), invalid


def _invalid(
    entry: Any, status: str, error: ToolgateError, pointer: str | None = None
) -> ToolReport:
    function = entry.get("function") if isinstance(entry, dict) else None
    name = function.get("name") if isinstance(function, dict) else None
    return ToolReport(
        name=str(name), status=status, code=error.code, reason=error.message, pointer=pointer
    )


def _report(tool: Tool, found: GrammarResult) -> ToolReport:
    verdict = found.verdict
    return ToolReport(
        name=tool.name,
        status=verdict.status,
        tier=found.tier,
        engine=verdict.engine,
        reason=verdict.reason,
        code=verdict.code,
        pointer=verdict.pointer,
        compile_ms=verdict.compile_ms,
    )


def _batches(tools: Sequence[Tool]) -> list[Sequence[Tool]]:
    return [tools[at : at + BATCH] for at in range(0, len(tools), BATCH)]
