"""Resampling: samples a choice again from inside or just before a call that failed validation.

Masks can't enforce a few keywords of JSON Schema. Calls of tools with such keywords are held and
validated before they are sent to the client. Decision 10 has the reasons.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import BackendFailed, InvalidRequest

from ..context import RequestContext
from ..routing.deployments import Deployment
from . import metrics
from .engine import Engine
from .generation import Generation
from .resampling_state import Resample
from .response import ChatResponse, ResponseEvent


async def events_of(
    engine: Engine,
    response: ChatResponse,
    generation: Generation,
    deployment: Deployment,
    context: RequestContext,
) -> AsyncGenerator[list[ResponseEvent], None]:
    """Yield the events of a generation, and of those that sample its choices again, in batches.
    Raise ToolSchemaViolation if every attempt at a call failed validation."""
    first = generation
    while True:
        async with aclosing(generation.read(response, context)) as batches:
            async for batch in batches:
                yield batch
        resample = response.take_resample()
        if resample is None:
            if engine.answers is not None and generation is first:
                engine.answers.keep()
            return
        generation = await _resample(
            engine, response.sent, generation, resample, deployment, context
        )


async def _resample(
    engine: Engine,
    request: ChatRequest,
    first: Generation,
    resample: Resample,
    deployment: Deployment,
    context: RequestContext,
) -> Generation:
    metrics.RESAMPLES.labels("value" if resample.in_call else "call").inc()
    context.resamples += 1
    try:
        deadline = first.events.deadline
        generation = await engine.generate(request, deployment, context, resample, deadline)
    except InvalidRequest as refused:  # for example if too few tokens of the budget remain
        metrics.GIVEN_UP.inc()
        raise resample.failed from refused
    if generation.prepared.info.tokenizer != first.prepared.info.tokenizer:
        await generation.events.aclose()
        raise BackendFailed(
            "The backend was restarted with another model during the response. Send the request "
            "again."
        )
    return generation
