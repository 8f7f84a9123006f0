"""Run one chat request at one backend: plan → grammars → backend → segment → validate.

The engine is independent of API and host. A choice whose call failed validation is sampled again:
masks cannot enforce a few keywords of JSON Schema, so calls of tools with such keywords are held
and validated before they are sent to the client. Decision 10 has the reasons.

Three wrappers call the engine: tool_loop.py goes on after calls that the gateway runs,
features/compaction/ shortens a conversation before its response, and failover.py moves a request if
its backend fails.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from toolgate_core.errors import (
    BackendFailed,
    ContextLengthExceeded,
    GrammarsRefused,
    InvalidRequest,
    PermissionDenied,
)

from ..backend_client.faults import asked_again
from ..context import RequestContext
from ..request.chat_request import ChatRequest
from ..routing.deployments import Deployment
from . import metrics
from .constraints import ConstraintLoader
from .generation import Generation, UnconstrainedGeneration, begun, begun_unconstrained
from .preparation import Engine, PreparedRequest, fitted, prepared, with_images
from .resampling_state import Resample
from .response import ChatResponse, ResponseEvent

MAX_SENDS = 3
"""Maximum number of times a request is sent to a backend that described itself: again if new
schemas are refused, without their tools if the settings omit them."""

NO_VERDICT = (
    "The backend doesn't say which grammars of this request it can enforce. Install the same "
    "Toolgate version on the gateway and the backend."
)


@dataclass(frozen=True)
class EngineRun:
    """The engine for one request, at one backend."""

    engine: Engine
    deployment: Deployment
    context: RequestContext

    @property
    def constraints(self) -> ConstraintLoader:
        return ConstraintLoader(self.engine, self.deployment, self.context)

    async def begin(self, request: ChatRequest) -> tuple[ChatResponse, Generation]:
        """Raise ToolgateError if the request is refused or the backend fails."""
        _check_permitted(request, self.context)
        request = await self.with_images(request)
        try:
            generation = await self.generate(request)
        except ContextLengthExceeded:
            if not request.drop_oldest:
                raise
            info = await self.deployment.backend.info()
            shorter = await fitted(request, self.count, info.limits.max_model_len)
            self.context.notes.dropped_messages = len(request.messages) - len(shorter.messages)
            generation = await self.generate(shorter)
        return self.response(generation), generation

    def response(self, generation: Generation) -> ChatResponse:
        """Return the response that a generation begins."""
        check = self.constraints.check(generation.constraints)
        return ChatResponse(generation.prepared, check, self.engine.settings.resamples)

    @asked_again
    async def unconstrained(self, request: ChatRequest) -> UnconstrainedGeneration:
        """Generate without enforcement, from the same prompt as `generate`. Raise ToolgateError if
        the request is refused or the backend fails."""
        return await begun_unconstrained(await self._prepared(request), self.deployment)

    @asked_again
    async def generate(
        self, request: ChatRequest, resample: Resample | None = None, deadline: float | None = None
    ) -> Generation:
        """Begin the generation: plan → grammars → backend. With `resample`, continue one choice;
        `deadline` is then that of the first generation, by time.monotonic. Raise ToolgateError."""
        deployment, context = self.deployment, self.context
        for _ in range(MAX_SENDS):
            prepared_request = prepared(request, await deployment.backend.info())
            constraints = await self.constraints.load(prepared_request, resample)
            plan, owner = constraints.prepared.plan, constraints.needed.owner
            try:
                generation = await begun(constraints, deployment, context, deadline)
            except GrammarsRefused as refused:
                deployment.grammars.learn_refused(
                    refused.verdicts, plan.grammars, prepared_request.info, owner
                )
                continue
            if not constraints.needed.unknown:
                return generation
            try:
                verdicts = await generation.verdicts()
                deployment.grammars.learn(verdicts, plan.grammars, prepared_request.info, owner)
                known = await self.constraints.load(prepared_request, resample)
                if known.needed.unknown:
                    raise BackendFailed(NO_VERDICT)
            except BaseException:
                await generation.aclose()
                raise
            if known.needed.keys == constraints.needed.keys:
                generation.accepted(deployment, context, known)
                return replace(generation, constraints=known)
            await generation.aclose()
        raise BackendFailed(NO_VERDICT)

    async def events(
        self, response: ChatResponse, generation: Generation
    ) -> AsyncGenerator[list[ResponseEvent], None]:
        """Yield the events of a generation, and of those that sample its choices again, in batches.
        Raise ToolSchemaViolation if every attempt at a call failed validation."""
        while True:
            async with aclosing(generation.read(response, self.context)) as batches:
                async for batch in batches:
                    yield batch
            resample = response.take_resample()
            if resample is None:
                return
            generation = await self._resampled(response.sent, generation, resample)

    async def _resampled(
        self, request: ChatRequest, first: Generation, resample: Resample
    ) -> Generation:
        metrics.RESAMPLES.labels("value" if resample.in_call else "call").inc()
        self.context.notes.resamples += 1
        try:
            generation = await self.generate(request, resample, first.events.deadline)
        except InvalidRequest as refused:  # for example if too few tokens of the budget remain
            metrics.GIVEN_UP.inc()
            raise resample.failed from refused
        if generation.prepared.info.tokenizer != first.prepared.info.tokenizer:
            await generation.events.aclose()
            raise BackendFailed(
                "The backend was restarted with another model during the response. Send the "
                "request again."
            )
        return generation

    @asked_again
    async def count(self, request: ChatRequest) -> int:
        """Return the number of tokens of the prompt, after the checks of `begin`. Those of grammars
        only leave tools out. Raise ToolgateError if the request is refused or the backend fails.
        """
        offered = await self.constraints.offered(await self._prepared(request))
        return await self.deployment.backend.count(offered.count_message())

    async def _prepared(self, request: ChatRequest) -> PreparedRequest:
        request = await self.with_images(request)
        return prepared(request, await self.deployment.backend.info())

    async def with_images(self, request: ChatRequest) -> ChatRequest:
        """Return the request with all images as data. Raise ToolgateError."""
        backend, notes = self.deployment.backend, self.context.notes
        return await with_images(request, self.engine.images, backend, notes)


def _check_permitted(request: ChatRequest, context: RequestContext) -> None:
    """Raise PermissionDenied for what costs a backend far more than the tokens that limits count,
    unless the request has the gateway's master key."""
    if context.caller.authenticated and context.caller.key is None:
        return
    costs = {
        "stream_options.toolgate_trace": request.extras.trace
        and "the backend computes each mask of such a response twice",
        "prompt_logprobs": request.sampling.prompt_logprobs is not None
        and "the engine computes the whole vocabulary for each token of such a prompt",
    }
    for name, reason in costs.items():
        if reason:
            raise PermissionDenied(
                f"{name!r} requires the gateway's master key, because {reason}. Remove it."
            )
