"""Requests for the number of tokens of a prompt: the checks of a request for a response, and the
prompt as the backend renders it."""

from __future__ import annotations

from typing import Any

from starlette.types import Scope, Send

from ..api.surface import Counting, Surface
from ..chat import failover
from ..litellm_host.deployments.model_route import ModelRoute
from ..state import gateway
from .exchange import Exchange
from .transport.body import RequestBody
from .transport.connection import Disconnect


class TokenCount(Exchange):
    def __init__(
        self,
        surface: Surface,
        counting: Counting,
        model_route: ModelRoute,
        model: str,
        body: dict[str, Any],
        scope: Scope,
        sent: RequestBody,
    ) -> None:
        super().__init__(surface, model_route, model, counting.prepared(body), scope, sent)
        self._counting = counting

    async def _respond(self, send: Send, disconnect: Disconnect) -> None:
        here, context = gateway(), self.context
        target, request = await self._accepted(output=False)
        tokens = await failover.count(
            here.engine, here.deployments, request, target.placement, self._alternatives
        )
        context.note_tokens(0, 0, complete=True)  # nothing was computed
        await self._send_json(self._counting.body(tokens), send, disconnect)
