"""One chat request, answered by one backend: plan → grammars → backend → segment → validate.

The engine knows no API and no host. Two wrappers call it: resampling.py samples a choice again
whose call failed validation, and failover.py moves a request whose backend is lost.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest
from toolgate_core.dialect import DIALECTS, Dialect
from toolgate_core.errors import BackendFailed, BackendUnavailable, GrammarUnknown
from toolgate_core.plan import EnforcementPlan, make_plan

from ..backend_client.event_stream import EventStream
from ..context import RequestContext
from ..routing.deployments import Deployment
from ..settings import Settings
from ..validation.service import ValidationService
from .backend_request import backend_request, schema_params
from .held_calls import CallCheck
from .images import Images
from .response import ChatResponse, ResponseEvent
from .retries import Resample, of_choice, request_again

SENDS = 6
"""Times that a request is sent at most while the backend evicts its grammars."""


@dataclass(frozen=True)
class Generation:
    """A request that a backend has begun to answer."""

    info: wire.Info
    dialect: Dialect
    plan: EnforcementPlan
    residual: Mapping[str, tuple[wire.ResidualKeyword, ...]]
    """By tool hash: keywords that the masks do not enforce."""
    events: EventStream


class Engine:
    def __init__(self, settings: Settings) -> None:
        self._validators = ValidationService(settings)
        self._images = Images(settings)
        self._resamples = settings.resamples

    async def begin(
        self, request: ChatRequest, deployment: Deployment, context: RequestContext
    ) -> tuple[ChatResponse, Generation]:
        """Raises ToolgateError where the request is refused or the backend fails."""
        if request.images:
            info = await deployment.backend.info()
            messages = await self._images.inlined(request.messages, sees=info.images)
            request = replace(request, messages=messages)
        generation = await self.generate(request, deployment, context)
        plan, residual = generation.plan, generation.residual
        unsure = [tool.name for tool in plan.candidates if tool.hash in residual]
        check = CallCheck(plan.candidates, unsure, self._validators)
        dialect, info = generation.dialect, generation.info
        return ChatResponse(request, plan, dialect, info, check, self._resamples), generation

    async def generate(
        self,
        request: ChatRequest,
        deployment: Deployment,
        context: RequestContext,
        resample: Resample | None = None,
        deadline: float | None = None,
    ) -> Generation:
        """plan → grammars → backend. `resample`: the choice to go on with, and `deadline` the
        deadline of its first generation, by time.monotonic."""
        backend, grammars = deployment.backend, deployment.grammars
        for _ in range(SENDS):
            info = await backend.info()
            dialect = _dialect(info)
            plan = make_plan(request, dialect)
            params = schema_params(request)
            loaded = await grammars.ensure(plan.grammars, params, info)
            await self._validators.prepare(plan.candidates, params)
            context.note_grammars(len(loaded.keys), loaded.tier, loaded.milliseconds)
            message = backend_request(request, plan, loaded, context.request_id)
            try:
                message = request_again(message, resample) if resample else message
                events = await backend.generate(message, deadline)
            except GrammarUnknown as unknown:
                grammars.forget(unknown.keys)
                continue
            context.note_enforcement(request.tools or request.content_format, loaded.residual)
            return Generation(info, dialect, plan, loaded.residual, events)
        raise BackendUnavailable(
            "The backend keeps evicting grammars that this request needs. Try again in a second.",
            retry_after=1,
        )

    async def events(
        self,
        answer: ChatResponse,
        generation: Generation,
        context: RequestContext,
        resample: Resample | None = None,
    ) -> AsyncGenerator[list[ResponseEvent], None]:
        """segment → validate, in batches: all that had arrived when the backend was read."""
        async with aclosing(generation.events) as batches:
            async for batch in batches:
                pieces = await answer.feed(of_choice(batch, resample.choice) if resample else batch)
                context.note_tokens(answer.counts.prompt, answer.counts.completion)
                yield pieces
                if answer.complete:
                    return


def _dialect(info: wire.Info) -> Dialect:
    if info.dialect not in DIALECTS:
        raise BackendFailed(
            f"The backend's dialect {info.dialect!r} is not known to this gateway. Install the "
            "same release of toolgate on both."
        )
    return DIALECTS[info.dialect]
