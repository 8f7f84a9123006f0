"""The grammars of one backend. Grammars that a request needs are loaded there.

The cheapest source that has a grammar is used: this process has already seen it loaded, then the
record in the shared cache (Redis), then the backend's compiler.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from toolgate_core import grammar_key as keys
from toolgate_core import wire
from toolgate_core.errors import (
    InvalidRequest,
    InvalidTools,
    SchemaNotEnforceable,
    SchemaTooComplex,
    ToolgateError,
)
from toolgate_core.tools import OnInvalid, Tool, refuse

from .. import metrics
from ..backend_client.client import Backend
from ..background import without_owner
from ..grammar_loads import Tier, slowest
from .loader import GrammarResult, Loader
from .memory_cache import MemoryCache
from .redis_cache import RedisCache
from .tool_check import check_tool, subject

OTHER_GATEWAY_SECONDS = 20.0
"""Maximum time to wait for a grammar that another gateway compiles. A compile may take 5 s of
processor time (CPU_SECONDS of the backend's quarantine), and other grammars may be compiled before
it. The lock of a gateway that was killed expires much earlier."""
OTHER_REQUEST_SECONDS = 0.5
"""Maximum time to wait for a batch of another request that also has grammars which this request
does not need."""


@dataclass(frozen=True)
class LoadedGrammars:
    """The grammars of one request, all of them loaded."""

    keys: dict[str, str]
    """Grammar keys by tool hash."""
    residual: dict[str, tuple[wire.ResidualKeyword, ...]]
    """Keywords that masks do not enforce, by tool hash. Tools without such keywords are absent."""
    tier: Tier
    """The slowest tier that was needed."""
    milliseconds: float


Load = Callable[[Sequence[wire.GrammarSource]], Coroutine[Any, Any, dict[str, GrammarResult]]]
Sources = Mapping[str, wire.GrammarSource]
"""Grammar sources by key."""


@dataclass(frozen=True)
class _Batch:
    """Grammars that are being loaded by one message to the backend."""

    keys: frozenset[str]
    task: asyncio.Task[dict[str, GrammarResult]]


class GrammarService:
    def __init__(
        self,
        backend: Backend,
        shared_cache: RedisCache | None = None,
        label: str = "",
    ) -> None:
        """`label` names the backend in metrics."""
        self._loader = Loader(backend, shared_cache, OTHER_GATEWAY_SECONDS)
        self._shared_cache = shared_cache
        self._memory = MemoryCache()
        self._loading: dict[str, _Batch] = {}
        """The newest batch of each grammar that is being loaded, by key."""
        self._gauge = metrics.GRAMMARS_KNOWN.labels(label)

    @property
    def loaded_count(self) -> int:
        """Number of grammars that this process has seen loaded at the backend."""
        return len(self._memory)

    async def ensure(
        self,
        candidates: Sequence[Tool],
        param_of: Mapping[str, str],
        info: wire.Info,
        owner: str = "",
        on_invalid: OnInvalid = refuse,
    ) -> LoadedGrammars:
        """Load the grammars of all candidates.

        `param_of` maps a tool's name to the request parameter that has its schema, for errors.
        `owner` is the key of the request: keys take turns at the backend. `on_invalid` gets
        InvalidTools, SchemaTooComplex and SchemaNotEnforceable for a schema that is refused.
        """
        if not candidates:
            return LoadedGrammars({}, {}, "memory", 0.0)
        began = time.monotonic()
        if len(candidates) > info.limits.max_grammars:
            raise InvalidTools(
                f"The request has {len(candidates)} tools, but the backend enforces at most "
                f"{info.limits.max_grammars} per request. Send fewer tools, or restrict them with "
                "`tool_choice`.",
                param="tools",
            )
        key_of = {tool.hash: grammar_key(tool, info) for tool in candidates}
        missing = [tool for tool in candidates if not self._memory.is_ready(key_of[tool.hash])]
        invalid: set[str] = set()

        def left_out(name: str, error: InvalidRequest) -> None:
            on_invalid(name, error)
            invalid.add(name)

        for tool in missing:
            try:
                check_tool(tool, param_of[tool.name])
            except InvalidRequest as error:
                left_out(tool.name, error)
        missing = [tool for tool in missing if tool.name not in invalid]
        # Read before the first await. While others load, a busy process may forget a key.
        residual = {tool.hash: self._memory.residual(key_of[tool.hash]) for tool in candidates}
        results = await self._results(missing, key_of, _opaque(owner))
        for tool in missing:
            verdict = results[key_of[tool.hash]].verdict
            if verdict.status == "refused":
                left_out(tool.name, refusal(verdict, tool, param_of[tool.name]))
            residual[tool.hash] = verdict.residual
        for tool in candidates:
            refused = _strict_error(tool, param_of[tool.name], residual[tool.hash])
            if refused is not None:
                left_out(tool.name, refused)
        kept = [tool.hash for tool in candidates if tool.name not in invalid]
        key_of = {tool_hash: key_of[tool_hash] for tool_hash in kept}
        if self._shared_cache is not None:
            self._shared_cache.count_uses(key_of.values())
        tiers = Counter(result.tier for key, result in results.items() if key in key_of.values())
        tiers["memory"] += len(key_of) - tiers.total()
        for tier, count in tiers.items():
            metrics.GRAMMARS.labels(tier).inc(count)
        residual = {tool_hash: residual[tool_hash] for tool_hash in kept if residual[tool_hash]}
        return LoadedGrammars(key_of, residual, slowest(*tiers), (time.monotonic() - began) * 1000)

    async def prepare(self, tools: Sequence[Tool], info: wire.Info) -> dict[str, GrammarResult]:
        """Load tools that passed `check_tool`. Returns the results, among them refusals, by tool
        hash."""
        key_of = {tool.hash: grammar_key(tool, info) for tool in tools}
        results = await self._results(tools, key_of)
        return {tool.hash: results[key_of[tool.hash]] for tool in tools}

    def forget(self, keys: Iterable[str]) -> None:
        """Remove grammars that the backend no longer has."""
        for key in keys:
            self._memory.forget(key)
        self._gauge.set(len(self._memory))

    async def _results(
        self, tools: Sequence[Tool], key_of: Mapping[str, str], owner: str = ""
    ) -> dict[str, GrammarResult]:
        """Return the results by key, from memory or from a load."""
        results: dict[str, GrammarResult] = {}
        sources: dict[str, wire.GrammarSource] = {}
        for tool in tools:
            key = key_of[tool.hash]
            if (refused := self._memory.refusal(key)) is not None:
                results[key] = GrammarResult(refused, "memory")
            elif self._memory.is_ready(key):
                residual = self._memory.residual(key)
                verdict = wire.GrammarVerdict(key=key, status="ready", residual=residual)
                results[key] = GrammarResult(verdict, "memory")
            else:
                sources[key] = wire.GrammarSource(
                    key=key, name=tool.name, parameters=tool.parameters, owner=owner
                )
        metrics.GRAMMAR_WAITS.labels("process").inc(len(sources.keys() & self._loading.keys()))
        return results | await self._load(sources, self._loader.load)

    async def _load(self, sources: Sources, load: Load) -> dict[str, GrammarResult]:
        """Load the grammars that no batch is loading, and wait for all (single flight)."""
        new = {key: source for key, source in sources.items() if key not in self._loading}
        if new:
            batch = _Batch(frozenset(new), asyncio.create_task(self._run(new, load)))
            without_owner(batch.task)
            self._loading.update(dict.fromkeys(new, batch))
        batches = {self._loading[key] for key in sources}
        results: dict[str, GrammarResult] = {}
        for part in await asyncio.gather(*(self._wait(batch, sources) for batch in batches)):
            results |= part
        return results

    async def _wait(self, batch: _Batch, sources: Sources) -> dict[str, GrammarResult]:
        """Return the results of a batch, for the keys in `sources`. The batch may also contain
        grammars of other requests. If it then fails or is slow, these keys are loaded without
        them."""
        # Shielded: the request that began the batch may be cancelled while others wait for it.
        if batch.keys <= sources.keys():
            return await asyncio.shield(batch.task)
        mine = {key: source for key, source in sources.items() if key in batch.keys}
        try:
            async with asyncio.timeout(OTHER_REQUEST_SECONDS):
                results = await asyncio.shield(batch.task)
        except (ToolgateError, TimeoutError):
            for key in mine:
                if self._loading.get(key) is batch:
                    del self._loading[key]
            return await self._load(mine, self._loader.load_again)
        return {key: results[key] for key in mine}

    async def _run(self, sources: Sources, load: Load) -> dict[str, GrammarResult]:
        try:
            results = await load(list(sources.values()))
            for result in results.values():
                self._memory.remember(result.verdict)
            return results
        finally:
            self._gauge.set(len(self._memory))
            for key in sources:
                batch = self._loading.get(key)
                if batch is not None and batch.task is asyncio.current_task():
                    del self._loading[key]


def _opaque(owner: str) -> str:
    """Return a name for the owner that does not show who it is."""
    return sha256(owner.encode()).hexdigest()[:16]


def grammar_key(tool: Tool, info: wire.Info) -> str:
    return keys.grammar_key(
        tool.hash,
        dialect=info.dialect,
        tokenizer=info.tokenizer,
        grammar_format=info.grammar_format,
    )


def refusal(verdict: wire.GrammarVerdict, tool: Tool, param: str) -> SchemaNotEnforceable:
    pointer = "" if tool.custom else verdict.pointer or ""
    where = f" (at {pointer})" if pointer else ""
    is_complex = verdict.code == SchemaTooComplex.code
    kind = SchemaTooComplex if is_complex else SchemaNotEnforceable
    return kind(
        f"{subject(tool)} can't be enforced{where}: {verdict.reason}",
        pointer=pointer,
        param=param,
    )


def _strict_error(
    tool: Tool, param: str, residual: Sequence[wire.ResidualKeyword]
) -> SchemaNotEnforceable | None:
    """Return the error for a tool that masks do not enforce completely. Strict tools must be
    enforced completely by masks. So must content, because it is sent before it could be
    validated."""
    if not residual or not (tool.strict or not tool.name):
        return None
    if tool.custom:
        message = f"{subject(tool)} can't be enforced. Simplify it."
        return SchemaNotEnforceable(message, pointer="", param=param)
    instead = ", or remove `strict`; calls are then validated before they are sent"
    keyword, pointer = residual[0].keyword, residual[0].pointer
    return SchemaNotEnforceable(
        f"{subject(tool)} contain {keyword!r} (at {pointer}), which masks can't enforce. "
        f"Rewrite the schema without it{instead if tool.name else ''}.",
        pointer=pointer,
        param=param,
    )
