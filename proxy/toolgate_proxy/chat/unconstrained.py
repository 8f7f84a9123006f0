"""Generation without enforcement, for comparison: the same prompt and sampling, no masks."""

from __future__ import annotations

from dataclasses import dataclass

from toolgate_core import wire

from ..backend_client.event_stream import EventStream
from ..routing.deployments import Deployment
from .request.preparation import Prepared


@dataclass(frozen=True)
class Unconstrained:
    """The events have all tokens, with the marks of the dialect."""

    prepared: Prepared
    """What the request asks for. Nothing enforces its plan."""
    events: EventStream

    @property
    def ends(self) -> frozenset[int]:
        """The ids of the tokens that end a turn."""
        return frozenset(self.prepared.info.marks.end_of_turn)


async def begun(prepared: Prepared, deployment: Deployment) -> Unconstrained:
    """Send the request. Raise ToolgateError."""
    request = prepared.request
    message = wire.GenerateRequest(
        request_id=request.request_id,
        model=request.model,
        prompt=prepared.prompt,
        sampling=request.sampling,
        priority=request.priority,
        cache_salt=request.cache_salt,
    )
    return Unconstrained(prepared, await deployment.backend.generate(message))
