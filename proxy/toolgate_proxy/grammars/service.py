"""The grammars of one backend address: what this process knows of them, and what requests send.

A request names the grammars that it needs, and a backend loads those that it lacks. What a backend
finds out about a schema, its verdict, is the same at every backend with the same tokenizer: this
process remembers it, and the shared cache (Redis) has it for other processes. A request with a new
schema gets the verdict at the begin of its response.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from toolgate_core.tools import OnInvalid, Tool, check_tool, refuse

from .. import metrics
from ..backend_client.client import Backend
from ..backend_client.faults import SAME_RELEASE, asked_again
from .verdicts import GRAMMAR_TTL, MemoryCache, RedisCache


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
    records: Mapping[str, wire.GrammarVerdict] = field(default_factory=dict)
    """By key: the verdicts that Redis has on grammars that this process did not know."""
    owner: str = ""
    """An opaque name for whoever sent the tools."""

    def without(self, hashes: Iterable[str]) -> NeededGrammars:
        """Return the grammars of a request that leaves these tools out."""
        left_out = {*hashes}
        keys = {each: key for each, key in self.keys.items() if each not in left_out}
        return replace(self, keys=keys, unknown=self.unknown & {*keys.values()})


class GrammarService:
    def __init__(
        self, backend: Backend, shared_cache: RedisCache | None = None, operator: str = ""
    ) -> None:
        """`operator`: whose records in `shared_cache` count."""
        self._backend = backend
        self._shared_cache = shared_cache
        self._operator = operator
        self._memory = MemoryCache()

    async def needed(
        self,
        candidates: Sequence[Tool],
        info: wire.Info,
        owner: str = "",
        on_invalid: OnInvalid = refuse,
    ) -> NeededGrammars:
        """Return what a request has to say about the grammars of its tools.

        `owner` is the key of the request: keys take turns at the backend. `on_invalid` gets
        InvalidTools, SchemaTooComplex and SchemaNotEnforceable for a schema that is refused.
        """
        if not candidates:
            return NeededGrammars({}, {})
        if len(candidates) > info.limits.max_grammars:
            raise InvalidTools(
                f"The request has {len(candidates)} tools, but the backend enforces at most "
                f"{info.limits.max_grammars} per request. Send fewer tools, or restrict them with "
                "`tool_choice`.",
                param="tools",
            )
        key_of = grammar_keys(candidates, info)
        verdicts = self._memory.verdicts(key_of.values())
        new = [tool for tool in candidates if key_of[tool.hash] not in verdicts]
        invalid: set[str] = set()

        def left_out(name: str, error: InvalidRequest) -> None:
            on_invalid(name, error)
            invalid.add(name)

        for tool in new:
            try:
                check_tool(tool)
            except InvalidRequest as error:
                left_out(tool.name, error)
        asked = [key_of[tool.hash] for tool in new if tool.name not in invalid]
        records = await self._records(asked)
        for record in records.values():
            self._memory.remember(record)
        verdicts |= records
        if self._shared_cache is not None:
            ready = (key for key, record in records.items() if record.status == "ready")
            again = (*self._memory.reused(key_of.values()), *ready)
            self._shared_cache.keep(self._operator, again)
        for tool in candidates:
            verdict = verdicts.get(key_of[tool.hash])
            if verdict is None or tool.name in invalid:
                continue
            if verdict.status == "refused":
                left_out(tool.name, refusal(verdict, tool))
            elif (refused := _strict_error(tool, verdict.residual)) is not None:
                left_out(tool.name, refused)
        kept = {tool.hash: key_of[tool.hash] for tool in candidates if tool.name not in invalid}
        unknown = frozenset(kept.values() - verdicts.keys())
        residual = {
            tool_hash: verdicts[key].residual
            for tool_hash, key in kept.items()
            if key in verdicts and verdicts[key].residual
        }
        opaque = sha256(owner.encode()).hexdigest()[:16]
        return NeededGrammars(kept, residual, unknown, records, opaque)

    async def with_records(self, message: wire.GenerateRequest) -> wire.GenerateRequest:
        """Return the message, also with the records of known grammars that Redis has, while
        replicas may lack these."""
        keys = {each.key: each.examined for each in message.grammars}
        lacked = self._memory.lacked(keys, self._backend.replicas)
        verdicts = await self._records([key for key in lacked if keys[key] is None])
        ready = {key: verdict for key, verdict in verdicts.items() if verdict.status == "ready"}
        grammars = (
            each.model_copy(update={"examined": ready[each.key]}) if each.key in ready else each
            for each in message.grammars
        )
        return message.model_copy(update={"grammars": (*grammars,)}) if ready else message

    def count(self, needed: NeededGrammars) -> None:
        """Count the grammars of a request that a backend has accepted."""
        new = len(needed.unknown)
        metrics.GRAMMARS.labels("new").inc(new)
        metrics.GRAMMARS.labels("known").inc(len({*needed.keys.values()}) - new)

    def learn(
        self,
        verdicts: Iterable[wire.GrammarVerdict],
        tools: Iterable[Tool],
        info: wire.Info,
        owner: str = "",
        **life: float,
    ) -> None:
        """Remember the verdicts of a backend on grammars of a request, also for other processes.
        `owner`: that of the grammars; `life`: of the records, as `RedisCache.put` has it."""
        asked = {*grammar_keys(tools, info).values()}
        new = [verdict for verdict in verdicts if verdict.key in asked]
        for verdict in new:
            self._memory.remember(verdict)
            if verdict.status == "refused":
                metrics.GRAMMARS_REFUSED.labels(refusal_of(verdict).code).inc()
        # The replica that has sent them has the grammars.
        self._memory.lacked((verdict.key for verdict in new), self._backend.replicas)
        if self._shared_cache is not None:
            self._shared_cache.put(self._operator, new, owner, **life)

    def learn_refused(
        self, verdicts: Iterable[object], tools: Iterable[Tool], info: wire.Info, owner: str = ""
    ) -> None:
        """Remember the verdicts in a backend's error. Raise BackendFailed for invalid ones."""
        try:
            self.learn(map(wire.GrammarVerdict.model_validate, verdicts), tools, info, owner)
        except ValidationError as error:
            raise BackendFailed(f"The backend sent an invalid verdict. {SAME_RELEASE}") from error

    @asked_again
    async def prepare(self, tools: Sequence[Tool]) -> dict[str, wire.GrammarVerdict]:
        """Load tools that passed `check_tool` at the backend, before requests need them. Return the
        verdicts, among them refusals, by tool hash. Raise the backend's errors."""
        info = await self._backend.info()
        key_of = grammar_keys(tools, info)
        sources = (
            wire.GrammarSource(key=key_of[tool.hash], name=tool.name, parameters=tool.parameters)
            for tool in tools
        )
        response = await self._backend.load_grammars(sources, info)
        verdicts = {verdict.key: verdict for verdict in response}
        if missing := len({*key_of.values()} - verdicts.keys()):
            raise BackendFailed(
                f"The backend returned no verdict for {missing} of {len(tools)} grammars. "
                f"{SAME_RELEASE}"
            )
        self.learn(response, tools, info, first=GRAMMAR_TTL)
        return {tool_hash: verdicts[key] for tool_hash, key in key_of.items()}

    async def _records(self, keys: Sequence[str]) -> dict[str, wire.GrammarVerdict]:
        cache = self._shared_cache
        return {} if cache is None or not keys else await cache.find(self._operator, keys)


def grammar_keys(tools: Iterable[Tool], info: wire.Info) -> dict[str, str]:
    """Return the grammar keys of tools at a backend, by tool hash."""
    end = keys.grammar_key(
        "", dialect=info.dialect, tokenizer=info.tokenizer, grammar_format=info.grammar_format
    )
    return {tool.hash: tool.hash + end for tool in tools}


def grammar_key(tool: Tool, info: wire.Info) -> str:
    return grammar_keys([tool], info)[tool.hash]


def refusal_of(verdict: wire.GrammarVerdict) -> type[SchemaNotEnforceable]:
    """Return the kind of error of a refusal."""
    return SchemaTooComplex if verdict.code == SchemaTooComplex.code else SchemaNotEnforceable


def refusal(verdict: wire.GrammarVerdict, tool: Tool) -> SchemaNotEnforceable:
    pointer = "" if tool.custom else verdict.pointer or ""
    where = f" (at {pointer})" if pointer else ""
    return refusal_of(verdict)(
        f"{tool.subject} cannot be enforced{where}: {verdict.reason}",
        pointer=pointer,
        param=tool.param,
    )


def _strict_error(
    tool: Tool, residual: Sequence[wire.ResidualKeyword]
) -> SchemaNotEnforceable | None:
    """Return the error for a strict tool that masks do not enforce completely."""
    if not residual or not tool.strict:
        return None
    if tool.custom:
        message = f"{tool.subject} cannot be enforced. Simplify it."
        return SchemaNotEnforceable(message, pointer="", param=tool.param)
    keyword, pointer = residual[0].keyword, residual[0].pointer
    return SchemaNotEnforceable(
        f"{tool.subject} contain {keyword!r} (at {pointer}), which masks cannot enforce. "
        "Rewrite the schema without it, or remove `strict`; calls are then validated before they "
        "are sent.",
        pointer=pointer,
        param=tool.param,
    )
