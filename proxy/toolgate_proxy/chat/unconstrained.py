"""Generation without enforcement, for comparison: the same prompt and sampling, no masks."""

from __future__ import annotations

from dataclasses import dataclass

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest
from toolgate_core.dialects.dialect import Dialect
from toolgate_core.plan import EnforcementPlan

from ..backend_client.event_stream import EventStream


@dataclass(frozen=True)
class Unconstrained:
    """The events have all tokens, with the marks of the dialect."""

    request: ChatRequest
    plan: EnforcementPlan
    """What the request asks for. Nothing enforces it."""
    dialect: Dialect
    ends: frozenset[int]
    """Ids of the tokens that end a turn."""
    events: EventStream


def unconstrained_request(request: ChatRequest, prompt: wire.ChatPrompt) -> wire.GenerateRequest:
    return wire.GenerateRequest(
        request_id=request.request_id,
        model=request.model,
        prompt=prompt,
        sampling=request.sampling,
        priority=request.priority,
        cache_salt=request.cache_salt,
    )
