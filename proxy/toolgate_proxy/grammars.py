"""The grammars of one backend, and having those that a request needs loaded there.

They are looked for where it costs least first: known to be loaded (this process) → the fleet's
record (Redis) → the backend's compiler.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from toolgate_core import keys, wire
from toolgate_core.errors import InvalidTools, SchemaNotEnforceable, SchemaTooComplex
from toolgate_core.limits import SchemaLimits, check_limits
from toolgate_core.plan import Tool

from . import metrics
from .backend_client import Backend
from .fleet_cache import FleetCache
from .grammar_loader import Found, Loader
from .known_grammars import KnownGrammars
from .receipt import Tier, slowest
from .settings import Settings


@dataclass(frozen=True)
class Loaded:
    """A request's grammars. `keys` and `residual`, what the masks leave open of those tools that
    have such keywords: by tool hash; `tier`: the slowest; `milliseconds`: in all."""

    keys: dict[str, str]
    residual: dict[str, tuple[wire.ResidualKeyword, ...]]
    tier: Tier
    milliseconds: float


class Grammars:
    def __init__(
        self,
        backend: Backend,
        settings: Settings,
        fleet: FleetCache | None = None,
        label: str = "",
    ) -> None:
        """`label` names the backend in metrics."""
        self._limits = settings.schema_limits
        self._loader = Loader(backend, fleet, settings.grammar_timeout)
        self._fleet = fleet
        self._known = KnownGrammars(settings.verdict_ttl)
        self._loading: dict[str, asyncio.Task[dict[str, Found]]] = {}
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
        """By key. Each grammar is loaded once at a time, whoever asks for it meanwhile."""
        found: dict[str, Found] = {}
        new: dict[str, wire.GrammarSource] = {}
        for tool in tools:
            key = key_of[tool.hash]
            refused = self._known.refused(key)
            if refused is not None:
                found[key] = Found(refused, "memory")
            elif self._known.ready(key):
                residual = self._known.residual(key)
                verdict = wire.GrammarVerdict(key=key, status="ready", residual=residual)
                found[key] = Found(verdict, "memory")
            elif key in self._loading:
                metrics.FLIGHT_WAITS.labels("process").inc()
            else:
                new[key] = wire.GrammarSource(key=key, name=tool.name, parameters=tool.parameters)
        if new:
            task = asyncio.create_task(self._load(list(new.values())))
            self._loading.update(dict.fromkeys(new, task))
        wanted = {key_of[tool.hash] for tool in tools} - set(found)
        for task in {self._loading[key] for key in wanted}:
            # Shielded: who began a load may hang up while others wait for it.
            loaded = await asyncio.shield(task)
            found |= {key: each for key, each in loaded.items() if key in wanted}
        return found

    async def _load(self, sources: Sequence[wire.GrammarSource]) -> dict[str, Found]:
        try:
            found = await self._loader.load(sources)
            for each in found.values():
                self._known.remember(each.verdict)
            return found
        finally:
            self._gauge.set(len(self._known))
            for source in sources:
                del self._loading[source.key]


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
