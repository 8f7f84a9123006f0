"""Counts the tokens of a prompt, at another backend of the model if the first one fails."""

from __future__ import annotations

from dataclasses import replace

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import BackendLost, BackendUnavailable

from ..routing.deployments import Deployments, Placement
from .engine import Engine
from .failover import Alternatives, note_failure, require_up


async def count(
    engine: Engine,
    deployments: Deployments,
    request: ChatRequest,
    first: Placement,
    alternatives: Alternatives,
) -> int:
    """Raises ToolgateError if the request is refused or all backends fail."""
    remaining: list[Placement] | None = None
    placement = first
    while True:
        deployment = deployments.at(placement)
        try:
            require_up(deployment)
            with deployment.load.running():
                return await engine.count(replace(request, model=placement.model), deployment)
        except (BackendUnavailable, BackendLost) as error:
            note_failure(deployment, error)
            if remaining is None:
                remaining = [*alternatives(deployment)]
            if not remaining:
                raise
            placement = remaining.pop()
