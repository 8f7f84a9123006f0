"""A call that the user has approved, and that runs once: clients repeat a request that failed after
the call, and get the outcome that was kept."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict, dataclass

from ...background import finished
from ...kept_values import KeptValues
from ...sealing import OwnerSeal, SealBroken
from .servers import MAX_RESULT, McpOutcome, McpServers

PURPOSE = "approved calls"
BEGUN = McpOutcome(error="This call began with an earlier request, and its result is not known.")
"""The outcome until the server responds. It stays if the gateway ends before."""
WAITS, PAUSE = 120, 0.5
"""Number of looks at a call that another request or gateway runs, and the seconds between them."""


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
        return await finished(self._outcome(name, arguments))

    async def _outcome(self, name: str, arguments: str) -> McpOutcome:
        told = json.dumps([self.seal.owner, self.approval, name, json.loads(arguments)])
        kept = self.seal.sealer.digest(told, purpose=PURPOSE)
        for _ in range(WAITS):
            [sealed] = await self.values.get([kept])
            if sealed is None:
                await self._keep(kept, BEGUN)
                outcome = await self.servers.call(name, arguments)
                await self._keep(kept, outcome)
                return outcome
            try:
                outcome = McpOutcome(**json.loads(self.seal.open(sealed, purpose=PURPOSE)))
            except SealBroken:
                break
            if outcome != BEGUN:
                return outcome
            await asyncio.sleep(PAUSE)
        return BEGUN

    async def _keep(self, kept: str, outcome: McpOutcome) -> None:
        told = {name: text and text[:MAX_RESULT] for name, text in asdict(outcome).items()}
        await self.values.put({kept: self.seal.seal(json.dumps(told).encode(), purpose=PURPOSE)})
