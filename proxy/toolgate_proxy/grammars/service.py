"""The grammars of one backend, and having those that a request needs loaded there.

They are looked for where it costs least first: known to be loaded (this process) → the fleet's
record (Redis) → the backend's compiler.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from toolgate_core import grammar_key as keys
from toolgate_core import wire
from toolgate_core.errors import InvalidTools, SchemaNotEnforceable, SchemaTooComplex
from toolgate_core.schema.limits import SchemaLimits, check_limits
from toolgate_core.tools import Tool

from ..backend_client.client import Backend
from ..context import Tier, slowest
from ..settings import Settings
from . import metrics
from .loader import Found, Loader
from .memory_cache import MemoryCache
from .redis_cache import RedisCache

FLEET_PATIENCE = 5.0
"""Seconds, at most, to wait for what another gateway is having compiled: as long as one compile may
take. What it has compiled with it may take longer."""
BATCH_PATIENCE = 0.5
"""Seconds to wait for a batch of this gateway's in which others' grammars are, too."""


@dataclass(frozen=True)
class Loaded:
    """A request's grammars. `keys` and `residual`, what the masks leave open of those tools that
    have such keywords: by tool hash; `tier`: the slowest; `milliseconds`: in all."""

    keys: dict[str, str]
    residual: dict[str, tuple[wire.ResidualKeyword, ...]]
    tier: Tier
    milliseconds: float


Load = Callable[[Sequence[wire.GrammarSource]], Coroutine[Any, Any, dict[str, Found]]]


@dataclass(frozen=True)
class _Batch:
    """Grammars under way, which arrive or fail together."""

    keys: frozenset[str]
    task: asyncio.Task[dict[str, Found]]


class GrammarService:
    def __init__(
        self,
        backend: Backend,
        settings: Settings,
        fleet: RedisCache | None = None,
        label: str = "",
    ) -> None:
        """`label` names the backend in metrics."""
        self._limits = settings.schema_limits
        self._loader = Loader(backend, fleet, min(settings.grammar_timeout, FLEET_PATIENCE))
        self._fleet = fleet
        self._known = MemoryCache(settings.verdict_ttl)
        self._loading: dict[str, _Batch] = {}
        self._gauge = metrics.KNOWN.labels(label)

    @property
    def known(self) -> int:
        """Grammars that the backend is known to hold."""
        return len(self._known)

    async def ensure(
        self, candidates: Sequence[Tool], param_of: Mapping[str, str], info: wire.Info
    ) -> Loaded:
        """The candidates' grammars, all of them loaded.

        `param_of` says where in the request a tool's schema stands, by the tool's name, for errors.
        Raises SchemaTooComplex and SchemaNotEnforceable for a schema that is refused.
        """
        began = time.monotonic()
        if len(candidates) > info.limits.max_grammars:
            raise InvalidTools(
                f"At most {info.limits.max_grammars} tools can be held to their schemas at once.",
                param="tools",
            )
        key_of = {tool.hash: grammar_key(tool, info) for tool in candidates}
        missing = [tool for tool in candidates if not self._known.ready(key_of[tool.hash])]
        for tool in missing:
            check_tool(tool, self._limits, param_of[tool.name])
        # Noted before anything is awaited: a busy process may forget a key while others load.
        residual = {tool.hash: self._known.residual(key_of[tool.hash]) for tool in candidates}
        found = await self._find(missing, key_of)
        for tool in missing:
            verdict = found[key_of[tool.hash]].verdict
            if verdict.status == "refused":
                raise refusal(verdict, tool, param_of[tool.name])
            residual[tool.hash] = verdict.residual
        _check_strict(candidates, param_of, residual)
        if self._fleet is not None:
            self._fleet.used(key_of.values())
        tiers = Counter(each.tier for each in found.values())
        tiers["memory"] += len(key_of) - len(found)
        for tier, count in tiers.items():
            metrics.GRAMMARS.labels(tier).inc(count)
        residual = {tool_hash: left for tool_hash, left in residual.items() if left}
        return Loaded(key_of, residual, slowest(*tiers), (time.monotonic() - began) * 1000)

    async def prepare(self, tools: Sequence[Tool], info: wire.Info) -> dict[str, Found]:
        """Has as many as possible loaded; what was found, by tool hash. Tools are within limits."""
        key_of = {tool.hash: grammar_key(tool, info) for tool in tools}
        found = await self._find(tools, key_of)
        return {tool.hash: found[key_of[tool.hash]] for tool in tools}

    def forget(self, lost: Iterable[str]) -> None:
        """The backend has said that it lacks these."""
        for key in lost:
            self._known.forget(key)
        self._gauge.set(len(self._known))

    async def _find(self, tools: Sequence[Tool], key_of: dict[str, str]) -> dict[str, Found]:
        """By key. Each grammar is loaded once at a time, whoever asks for it meanwhile. A batch
        that holds what others asked for may be slow or fail: for that nobody waits long."""
        found: dict[str, Found] = {}
        sources: dict[str, wire.GrammarSource] = {}
        for tool in tools:
            key = key_of[tool.hash]
            refused = self._known.refused(key)
            if refused is not None:
                found[key] = Found(refused, "memory")
            elif self._known.ready(key):
                residual = self._known.residual(key)
                verdict = wire.GrammarVerdict(key=key, status="ready", residual=residual)
                found[key] = Found(verdict, "memory")
            else:
                sources[key] = wire.GrammarSource(
                    key=key, name=tool.name, parameters=tool.parameters
                )
        if not sources:
            return found
        under_way = sources.keys() & self._loading.keys()
        metrics.WAITS.labels("process").inc(len(under_way))
        self._begin(sources, sources.keys() - under_way, self._loader.load)
        missing = set(sources)
        while missing:
            batches = {self._loading[key] for key in missing}
            others = {batch for batch in batches if not batch.keys <= sources.keys()}
            if others:
                await asyncio.wait({batch.task for batch in others}, timeout=BATCH_PATIENCE)
            arrived = {batch for batch in others if _succeeded(batch.task)}
            for batch in batches - others | arrived:
                # Shielded: who began a load may hang up while others wait for it.
                loaded = await asyncio.shield(batch.task)
                found |= {key: each for key, each in loaded.items() if key in missing}
            missing -= found.keys()
            again = {key for key in missing if self._loading.get(key) in (None, *others)}
            self._begin(sources, again, self._loader.load_beside)
        return found

    def _begin(
        self, sources: Mapping[str, wire.GrammarSource], keys_: Set[str], load: Load
    ) -> None:
        if keys_:
            batch = [source for key, source in sources.items() if key in keys_]
            task = asyncio.create_task(self._load(batch, load))
            self._loading.update(dict.fromkeys(keys_, _Batch(frozenset(keys_), task)))

    async def _load(self, sources: Sequence[wire.GrammarSource], load: Load) -> dict[str, Found]:
        try:
            found = await load(sources)
            for each in found.values():
                self._known.remember(each.verdict)
            return found
        finally:
            self._gauge.set(len(self._known))
            for source in sources:
                batch = self._loading.get(source.key)
                if batch is not None and batch.task is asyncio.current_task():
                    del self._loading[source.key]


def _succeeded(task: asyncio.Task[dict[str, Found]]) -> bool:
    return task.done() and not task.cancelled() and task.exception() is None


def grammar_key(tool: Tool, info: wire.Info) -> str:
    return keys.grammar_key(
        tool.hash,
        dialect=info.dialect,
        tokenizer=info.tokenizer,
        grammar_format=info.grammar_format,
    )


def check_tool(tool: Tool, limits: SchemaLimits, param: str) -> None:
    """Before anything else looks at a schema that is new. Raises SchemaTooComplex, and InvalidTools
    for text that is no Unicode (a lone surrogate), which no message to a backend can hold."""
    check_limits(tool.parameters, limits, param=param)
    try:
        json.dumps(tool.parameters, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise InvalidTools(
            f"{_subject(tool)} hold text that is not valid Unicode.", param=param
        ) from error


def refusal(verdict: wire.GrammarVerdict, tool: Tool, param: str) -> SchemaNotEnforceable:
    pointer = verdict.pointer or ""
    where = f" (at {pointer})" if pointer else ""
    complex_ = verdict.code == SchemaTooComplex.code
    kind = SchemaTooComplex if complex_ else SchemaNotEnforceable
    return kind(
        f"{_subject(tool)} can't be enforced{where}: {verdict.reason}",
        pointer=pointer,
        param=param,
    )


def _check_strict(
    candidates: Sequence[Tool],
    param_of: Mapping[str, str],
    residual: Mapping[str, Sequence[wire.ResidualKeyword]],
) -> None:
    """A strict tool is enforced while the model samples, or not at all. So is content, which is
    shown as it comes."""
    for tool in candidates:
        left = residual[tool.hash]
        if left and (tool.strict or not tool.name):
            instead = ", or leave `strict` out: then calls are checked before they are sent"
            raise SchemaNotEnforceable(
                f"{_subject(tool)} hold {left[0].keyword!r}, which can't be enforced while the "
                f"model samples: rewrite the schema without it{instead if tool.name else ''}.",
                pointer=left[0].pointer,
                param=f"{_pointer(param_of[tool.name])}{left[0].pointer}",
            )


def _pointer(param: str) -> str:
    """`tools[0].function` as a JSON Pointer (RFC 6901) into the request."""
    return "/" + param.replace("[", "/").replace("]", "").replace(".", "/")


def _subject(tool: Tool) -> str:
    return f"The parameters of {tool.name!r}" if tool.name else "The keywords of response_format"
