"""Which grammars a backend is known to hold, and loading those it lacks.

This is the first of the places a grammar is looked for (L1): the keys that this process has seen
loaded. A store shared by a fleet of gateways belongs between `_ready` and `Backend.load_grammars`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from toolgate_core import keys, wire
from toolgate_core.errors import BackendFailed, InvalidTools, SchemaNotEnforceable
from toolgate_core.plan import Tool

from .backend_client import Backend

MAX_KEYS = 100_000
"""Keys remembered for one backend. Forgetting one costs a load that the backend answers at once."""


class Grammars:
    """The grammars of one backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._ready: OrderedDict[str, None] = OrderedDict()
        self._loading: dict[str, asyncio.Task[dict[str, wire.GrammarVerdict]]] = {}

    async def ensure(
        self, candidates: Sequence[Tool], tools: Sequence[Tool], info: wire.Info
    ) -> dict[str, str]:
        """The candidates' grammar keys by tool hash, all of them loaded.

        `tools` is the request's whole list, by whose positions errors name a tool. Raises
        SchemaNotEnforceable for a schema that no engine holds.
        """
        if len(candidates) > info.limits.max_grammars:
            raise InvalidTools(
                f"At most {info.limits.max_grammars} tools can be held to their schemas at once.",
                param="tools",
            )
        key_of = {tool.hash: _key(tool, info) for tool in candidates}
        verdicts = await self._verdicts(candidates, key_of)
        for tool in candidates:
            verdict = verdicts.get(key_of[tool.hash])
            if verdict is not None and verdict.status == "refused":
                raise _refusal(verdict, tool, tools.index(tool))
        return key_of

    def forget(self, lost: Iterable[str]) -> None:
        """The backend has said that it lacks these."""
        for key in lost:
            self._ready.pop(key, None)

    async def _verdicts(
        self, candidates: Sequence[Tool], key_of: dict[str, str]
    ) -> dict[str, wire.GrammarVerdict]:
        """Verdicts of the grammars that were not known to be ready; each is loaded once at a time,
        whoever asks for it meanwhile."""
        missing = [tool for tool in candidates if not self._known(key_of[tool.hash])]
        new = [
            wire.GrammarSource(key=key_of[tool.hash], name=tool.name, parameters=tool.parameters)
            for tool in missing
            if key_of[tool.hash] not in self._loading
        ]
        if new:
            task = asyncio.create_task(self._load(new))
            self._loading.update((source.key, task) for source in new)
        verdicts: dict[str, wire.GrammarVerdict] = {}
        for task in {self._loading[key_of[tool.hash]] for tool in missing}:
            # Shielded: who began a load may hang up while others wait for it.
            verdicts |= await asyncio.shield(task)
        return verdicts

    async def _load(self, sources: Sequence[wire.GrammarSource]) -> dict[str, wire.GrammarVerdict]:
        try:
            answer = await self._backend.load_grammars(sources)
            verdicts = {verdict.key: verdict for verdict in answer}
            if any(source.key not in verdicts for source in sources):
                raise BackendFailed("The backend left grammars without a verdict.")
            for verdict in answer:
                if verdict.status == "ready":
                    self._remember(verdict.key)
            return verdicts
        finally:
            for source in sources:
                del self._loading[source.key]

    def _known(self, key: str) -> bool:
        if key not in self._ready:
            return False
        self._ready.move_to_end(key)
        return True

    def _remember(self, key: str) -> None:
        self._ready[key] = None
        if len(self._ready) > MAX_KEYS:
            self._ready.popitem(last=False)


def _key(tool: Tool, info: wire.Info) -> str:
    return keys.grammar_key(
        tool.hash,
        dialect=info.dialect,
        tokenizer=info.tokenizer,
        grammar_format=info.grammar_format,
    )


def _refusal(verdict: wire.GrammarVerdict, tool: Tool, position: int) -> SchemaNotEnforceable:
    pointer = verdict.pointer or ""
    where = f" (at {pointer})" if pointer else ""
    return SchemaNotEnforceable(
        f"The parameters of {tool.name!r} can't be enforced{where}: {verdict.reason}",
        pointer=pointer,
        param=f"tools[{position}].function.parameters",
    )
