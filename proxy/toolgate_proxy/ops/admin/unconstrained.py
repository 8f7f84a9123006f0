"""`POST /toolgate/unconstrained`: an unenforced response, and where it breaks its request."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest, ModelNotFound, ToolgateError

from ...api.chat_completions.output import DONE, server_sent
from ...api.surfaces import COMPLETIONS
from ...chat.engine import EngineRun
from ...chat.generation import UnconstrainedGeneration
from ...context import RequestContext
from ...litellm_host.routing.router import placements
from ...sealing import MASTER_KEY
from ...state import gateway
from .judgement import judge


async def begin(body: dict[str, Any]) -> UnconstrainedGeneration:
    model = body.get("model")
    targets = placements(model) if isinstance(model, str) else []
    if not targets:
        raise ModelNotFound(f"There is no Toolgate model {model!r}.", param="model")
    state, placement, context = gateway(), targets[0], RequestContext()
    notes, model = context.notes, placement.model
    request, _ = state.reader.read(COMPLETIONS, body, notes, model=model, owner=MASTER_KEY)
    request = await state.reader.completed(request, MASTER_KEY, context)
    if request.sampling.n > 1:
        raise InvalidRequest("'n' must be 1 here.", param="n")
    deployment = state.deployments.at(placement)
    return await EngineRun(state.engine, deployment, context).unconstrained(request)


async def events(generation: UnconstrainedGeneration) -> AsyncIterator[bytes]:
    text, ended, reason = "", "", "stop"
    prepared, ends = generation.prepared, generation.ends
    try:
        async with aclosing(generation.events) as batches:
            async for batch in batches:
                for event in batch:
                    if isinstance(event, wire.TokensEvent):
                        for token, piece in zip(event.ids, event.texts, strict=True):
                            is_end = token in ends
                            text += ended + ("" if is_end else piece)
                            ended = piece if is_end else ""
                        yield server_sent([{"text": "".join(event.texts)}])
                    elif isinstance(event, wire.EndEvent):
                        text, reason = text + event.text, event.finish_reason
        validators = gateway().engine.validators
        tools, plan = prepared.request.tools, prepared.plan
        judgement = await judge(text, reason, tools, plan, prepared.dialect, validators)
        yield server_sent([{"judgement": judgement.model_dump()}])
    except ToolgateError as error:
        yield server_sent([error.body()])
    yield DONE
