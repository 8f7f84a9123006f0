"""The grammars of one backend address: what this process knows of them, and what requests send.

A request names the grammars that it needs, and a backend loads those that it lacks. What a backend
finds out about a schema, its verdict, is the same at every backend with the same tokenizer: this
process remembers it, and the shared cache (Redis) has it for other processes. A request with a new
schema gets the verdict at the begin of its response.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

from pydantic import ValidationError

from toolgate_core import grammar_key as keys
from toolgate_core import wire
from toolgate_core.errors import (
    BackendFailed,
    InvalidRequest,
    InvalidTools,
    SchemaNotEnforceable,
    SchemaTooComplex,
)
from toolgate_core.tools import OnInvalid, Tool, refuse

from .. import metrics
from ..backend_client.client import Backend
from ..backend_client.faults import SAME_RELEASE
from ..grammar_loads import Tier, slowest
from .memory_cache import MemoryCache
from .redis_cache import RedisCache
from .sealed_record import GrammarRecord
from .tool_check import check_tool, subject

ENGINES = ("xgrammar", "llguidance")
"""Engines with a metric of their own."""


@dataclass(frozen=True)
class NeededGrammars:
    """The grammars of one request, without those of tools that are left out."""

    keys: dict[str, str]
    """Grammar keys by tool hash."""
    residual: dict[str, tuple[wire.ResidualKeyword, ...]]
    """Keywords that masks do not enforce, by tool hash. Tools without such keywords, and those
    without a verdict, are absent."""
    unknown: frozenset[str] = frozenset()
    """Keys of the grammars without a verdict, which arrives with the response."""
    records: Mapping[str, GrammarRecord] | None = None
    """By key: what Redis has of grammars that this process did not know."""
    owner: str = ""
    """An opaque name for whoever sent the tools."""
    milliseconds: float = 0.0

    def without(self, hashes: Iterable[str]) -> NeededGrammars:
        """Return the grammars of a request that leaves these tools out."""
        left_out = {*hashes}
        keys = {each: key for each, key in self.keys.items() if each not in left_out}
        return replace(self, keys=keys, unknown=self.unknown & {*keys.values()})

    @property
    def tiers(self) -> list[Tier]:
        """The source of each verdict."""
        records = self.records or {}
        return [
            "compiled" if key in self.unknown else "redis" if key in records else "memory"
            for key in self.keys.values()
        ]

    @property
    def tier(self) -> Tier:
        """The slowest source of a verdict."""
        return slowest("memory", *self.tiers)


@dataclass(frozen=True)
class GrammarResult:
    """The backend's verdict on one grammar, and the tier that had it."""

    verdict: wire.GrammarVerdict
    tier: Tier


class GrammarService:
    def __init__(
        self,
        backend: Backend,
        shared_cache: RedisCache | None = None,
        label: str = "",
    ) -> None:
        """`label` names the backend in metrics."""
        self._backend = backend
        self._shared_cache = shared_cache
        self._memory = MemoryCache()
        self._gauge = metrics.GRAMMARS_KNOWN.labels(label)

    @property
    def known_count(self) -> int:
        """Number of grammars that this process knows to be enforceable."""
        return len(self._memory)

    async def needed(
        self,
        candidates: Sequence[Tool],
        param_of: Mapping[str, str],
        info: wire.Info,
        owner: str = "",
        on_invalid: OnInvalid = refuse,
    ) -> NeededGrammars:
        """Return what a request has to say about the grammars of its tools.

        `param_of` maps a tool's name to the request parameter that has its schema, for errors.
        `owner` is the key of the request: keys take turns at the backend. `on_invalid` gets
        InvalidTools, SchemaTooComplex and SchemaNotEnforceable for a schema that is refused.
        """
        if not candidates:
            return NeededGrammars({}, {})
        began = time.monotonic()
        if len(candidates) > info.limits.max_grammars:
            raise InvalidTools(
                f"The request has {len(candidates)} tools, but the backend enforces at most "
                f"{info.limits.max_grammars} per request. Send fewer tools, or restrict them with "
                "`tool_choice`.",
                param="tools",
            )
        key_of = {tool.hash: grammar_key(tool, info) for tool in candidates}
        verdicts = {key: self._memory.verdict(key) for key in key_of.values()}
        new = [tool for tool in candidates if verdicts[key_of[tool.hash]] is None]
        invalid: set[str] = set()

        def left_out(name: str, error: InvalidRequest) -> None:
            on_invalid(name, error)
            invalid.add(name)

        for tool in new:
            try:
                check_tool(tool, param_of[tool.name])
            except InvalidRequest as error:
                left_out(tool.name, error)
        asked = [key_of[tool.hash] for tool in new if tool.name not in invalid]
        records = await self._records(asked)
        verdicts |= {key: record.verdict for key, record in records.items()}
        for tool in candidates:
            verdict, param = verdicts[key_of[tool.hash]], param_of[tool.name]
            if verdict is None or tool.name in invalid:
                continue
            if verdict.status == "refused":
                left_out(tool.name, refusal(verdict, tool, param))
            elif (refused := _strict_error(tool, param, verdict.residual)) is not None:
                left_out(tool.name, refused)
        kept = {tool.hash: key_of[tool.hash] for tool in candidates if tool.name not in invalid}
        unknown = frozenset(key for key in kept.values() if verdicts[key] is None)
        residual = {
            tool_hash: verdict.residual
            for tool_hash, key in kept.items()
            if (verdict := verdicts[key]) is not None and verdict.residual
        }
        milliseconds = (time.monotonic() - began) * 1000
        return NeededGrammars(kept, residual, unknown, records, _opaque(owner), milliseconds)

    def count_uses(self, needed: NeededGrammars) -> None:
        """Count the grammars of a request that a backend has accepted."""
        for tier in needed.tiers:
            metrics.GRAMMARS.labels(tier).inc()
        if self._shared_cache is not None:
            self._shared_cache.count_uses(needed.keys.values())

    def unknown(self, tools: Iterable[Tool], info: wire.Info) -> list[Tool]:
        """Return the tools whose verdicts this process does not know."""
        return [tool for tool in tools if self._memory.verdict(grammar_key(tool, info)) is None]

    def learn(
        self, verdicts: Iterable[wire.GrammarVerdict], tools: Iterable[Tool], info: wire.Info
    ) -> None:
        """Remember the verdicts of a backend on grammars of a request, also for other processes."""
        found = {verdict.key: verdict for verdict in verdicts}
        _note(found.values())
        records = list[GrammarRecord]()
        for tool in tools:
            if (verdict := found.get(grammar_key(tool, info))) is not None:
                records.append(
                    GrammarRecord(name=tool.name, parameters=tool.parameters, verdict=verdict)
                )
        self._remember(record.verdict for record in records)
        if self._shared_cache is not None:
            self._shared_cache.put(records)

    async def prepare(self, tools: Sequence[Tool], info: wire.Info) -> dict[str, GrammarResult]:
        """Load tools that passed `check_tool` at the backend, before requests need them. Return the
        results, among them refusals, by tool hash. Raise the backend's errors."""
        key_of = {tool.hash: grammar_key(tool, info) for tool in tools}
        records = await self._records(list(key_of.values()))
        results = {
            key: GrammarResult(record.verdict, "redis")
            for key, record in records.items()
            if record.verdict.status == "refused"
        }
        sources = list[wire.GrammarSource]()
        for tool in tools:
            if (key := key_of[tool.hash]) not in results:
                source = wire.GrammarSource(key=key, name=tool.name, parameters=tool.parameters)
                record = records.get(key)
                sources.append(source.after(record.verdict) if record else source)
        if sources:
            response = await self._backend.load_grammars(sources)
            found = {verdict.key: verdict for verdict in response}
            missing = sum(source.key not in found for source in sources)
            if missing:
                raise BackendFailed(
                    f"The backend returned no verdict for {missing} of {len(sources)} grammars. "
                    f"{SAME_RELEASE}"
                )
            new = [tool for tool in tools if key_of[tool.hash] not in records]
            self.learn((found[key_of[tool.hash]] for tool in new), new, info)
            self._remember(found.values())
            for key, verdict in found.items():
                results[key] = GrammarResult(verdict, "redis" if key in records else "compiled")
        return {tool.hash: results[key_of[tool.hash]] for tool in tools}

    async def _records(self, keys: Sequence[str]) -> dict[str, GrammarRecord]:
        if self._shared_cache is None or not keys:
            return {}
        records = await self._shared_cache.find(keys)
        self._remember(record.verdict for record in records.values())
        return records

    def _remember(self, verdicts: Iterable[wire.GrammarVerdict]) -> None:
        for verdict in verdicts:
            self._memory.remember(verdict)
        self._gauge.set(len(self._memory))


def _note(verdicts: Iterable[wire.GrammarVerdict]) -> None:
    """Count new verdicts in the metrics."""
    for verdict in verdicts:
        if verdict.status == "refused":
            too_complex = verdict.code == SchemaTooComplex.code
            code = SchemaTooComplex.code if too_complex else SchemaNotEnforceable.code
            metrics.GRAMMARS_REFUSED.labels(code).inc()
        elif verdict.compile_ms is not None:
            engine = verdict.engine if verdict.engine in ENGINES else "other"
            metrics.COMPILE_SECONDS.labels(engine).observe(verdict.compile_ms / 1000)


def read_verdicts(given: Iterable[object]) -> list[wire.GrammarVerdict]:
    """Return the verdicts in a backend's error. Raise BackendFailed."""
    try:
        return [wire.GrammarVerdict.model_validate(each) for each in given]
    except ValidationError as error:
        raise BackendFailed(f"The backend sent an invalid verdict. {SAME_RELEASE}") from error


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
