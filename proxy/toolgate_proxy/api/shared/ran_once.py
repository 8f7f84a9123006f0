"""A call that the user has approved, and that runs once: clients repeat a request that failed after
the call, and get the outcome that was kept."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass

from ...background import without_owner
from ...kept_values import KeptValues
from ...sealing import OwnerSeal, SealBroken
from .mcp import MAX_RESULT, McpOutcome, McpServers

PURPOSE = "approved calls"
BEGUN = McpOutcome(error="This call began with an earlier request, and its result is not known.")
"""The outcome until the server responds. It stays if the gateway ends before."""
_running: dict[str, asyncio.Task[McpOutcome]] = {}
"""By the names under which the outcomes are kept, which the owner is part of."""


@dataclass(frozen=True)
class RanOnce:
    """`approval`: the id of the request for approval."""

    servers: McpServers
    approval: str
    seal: OwnerSeal
    values: KeptValues

    def server_of(self, name: str) -> str:
        return self.servers.server_of(name)

    async def call(self, name: str, arguments: str) -> McpOutcome:
        """Return the outcome of the first such call. It goes on if the request is cancelled."""
        told = [self.seal.owner, self.approval, name, json.loads(arguments)]
        kept = self.seal.sealer.digest(json.dumps(told, sort_keys=True), purpose=PURPOSE)
        if kept not in _running:
            _running[kept] = asyncio.create_task(self._outcome(kept, name, arguments))
            _running[kept].add_done_callback(lambda _: _running.pop(kept, None))
            without_owner(_running[kept])
        return await asyncio.shield(_running[kept])

    async def _outcome(self, kept: str, name: str, arguments: str) -> McpOutcome:
        [sealed] = await self.values.get([kept])
        if sealed is not None:
            try:
                return McpOutcome(**json.loads(self.seal.open(sealed, purpose=PURPOSE)))
            except SealBroken:
                return BEGUN
        await self._keep(kept, BEGUN)
        outcome = await self.servers.call(name, arguments)
        await self._keep(kept, outcome)
        return outcome

    async def _keep(self, kept: str, outcome: McpOutcome) -> None:
        told = {name: text and text[:MAX_RESULT] for name, text in asdict(outcome).items()}
        await self.values.put({kept: self.seal.seal(json.dumps(told).encode(), purpose=PURPOSE)})
