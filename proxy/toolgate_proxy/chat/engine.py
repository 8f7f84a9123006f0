"""Runs one chat request at one backend: plan → grammars → backend → segment → validate.

The engine is independent of API and host. A choice whose call failed validation is sampled again:
masks can't enforce a few keywords of JSON Schema, so calls of tools with such keywords are held and
validated before they are sent to the client. Decision 10 has the reasons.

Three wrappers call the engine: tool_loop.py goes on after calls that the gateway runs,
features/compaction/ shortens a conversation before its response, and failover.py moves a request if
its backend fails.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import (
    BackendFailed,
    ContextLengthExceeded,
    GrammarsRefused,
    InvalidRequest,
    PermissionDenied,
)

from ..backend_client.faults import asked_again
from ..context import RequestContext
from ..routing.deployments import Deployment
from ..settings import Settings
from . import metrics
from .answers import Answers
from .constraints import ConstraintLoader
from .generation import Generation, Unconstrained, begun, begun_unconstrained
from .images import Images
from .preparation import Prepared, prepared, with_images
from .resampling_state import Resample
from .response import ChatResponse, ResponseEvent
from .shortening import edited, fitted

MAX_SENDS = 3
"""Maximum number of times a request is sent to a backend that described itself: again if new
schemas are refused, without their tools if the settings omit them."""

NO_VERDICT = (
    "The backend doesn't say which grammars of this request it can enforce. Install the same "
    "Toolgate version on the gateway and the backend."
)


class Engine:
    def __init__(self, settings: Settings) -> None:
        self._images = Images(fetch=settings.image_urls)
        self._constraints = ConstraintLoader(settings)
        self.validators = self._constraints.validators
        self._resamples = settings.resamples
        self.answers: Answers | None = None
        """None: there is no response cache."""

    def keeping(self, answers: Answers | None) -> Engine:
        """Return the engine for one request, whose answers are kept."""
        if answers is None:
            return self
        made = copy.copy(self)
        made.answers = answers
        return made

    async def begin(
        self, request: ChatRequest, deployment: Deployment, context: RequestContext
    ) -> tuple[ChatResponse, Generation]:
        """Raise ToolgateError if the request is refused or the backend fails."""
        _check_trace(request, context)
        request = await with_images(self._images, request, deployment, context)
        request = await self.edited(request, deployment, context)
        try:
            generation = await self.generate(request, deployment, context)
        except ContextLengthExceeded:
            if not request.shortening.drop_oldest:
                raise
            info = await deployment.backend.info()
            count = partial(self._count, deployment=deployment, context=context)
            shorter = await fitted(request, count, info.limits.max_model_len)
            context.notes.dropped_messages = len(request.messages) - len(shorter.messages)
            generation = await self.generate(shorter, deployment, context)
        sender = context.caller.sender
        return generation.response(self.validators, sender, self._resamples), generation

    @asked_again
    async def generate(
        self,
        request: ChatRequest,
        deployment: Deployment,
        context: RequestContext,
        resample: Resample | None = None,
        deadline: float | None = None,
    ) -> Generation:
        """Begin the generation: plan → grammars → backend. With `resample`, continue one choice;
        `deadline` is then that of the first generation, by time.monotonic. Raise ToolgateError."""
        for _ in range(MAX_SENDS):
            found = prepared(request, await deployment.backend.info())
            constraints = await self._constraints.load(found, deployment, context, resample)
            plan = constraints.prepared.plan
            answers = None if request.extras.trace else self.answers
            try:
                generation = await begun(constraints, deployment, context, deadline, answers)
            except GrammarsRefused as refused:
                deployment.grammars.learn_refused(refused.verdicts, plan.grammars, found.info)
                continue
            if not constraints.needed.unknown:
                return generation
            try:
                verdicts = await generation.verdicts()
                deployment.grammars.learn(verdicts, plan.grammars, found.info)
                known = await self._constraints.load(found, deployment, context, resample)
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
        self,
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
                if generation is first:
                    self.keep(generation)
                return
            generation = await self._resampled(
                response.sent, generation, resample, deployment, context
            )

    def keep(self, generation: Generation) -> None:
        """Keep the answer of a generation that has ended, if there is a response cache."""
        if self.answers is not None:
            generation.keep(self.answers)

    async def _resampled(
        self,
        request: ChatRequest,
        first: Generation,
        resample: Resample,
        deployment: Deployment,
        context: RequestContext,
    ) -> Generation:
        metrics.RESAMPLES.labels("value" if resample.in_call else "call").inc()
        context.notes.resamples += 1
        try:
            deadline = first.events.deadline
            generation = await self.generate(request, deployment, context, resample, deadline)
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

    async def count(
        self, request: ChatRequest, deployment: Deployment, context: RequestContext
    ) -> int:
        """Return the number of tokens of the prompt, after the checks of `begin`. Those of grammars
        only leave tools out. Raise ToolgateError if the request is refused or the backend fails.
        """
        request = await self.edited(request, deployment, context)
        return await self._count(request, deployment, context)

    @asked_again
    async def unconstrained(self, request: ChatRequest, deployment: Deployment) -> Unconstrained:
        """Generate without enforcement, from the same prompt as `generate`. Raise ToolgateError if
        the request is refused or the backend fails."""
        found = await self._prepared(request, deployment)
        return await begun_unconstrained(found, deployment)

    async def edited(
        self, request: ChatRequest, deployment: Deployment, context: RequestContext
    ) -> ChatRequest:
        """Return the request with its context edits applied. Raise ToolgateError."""
        if not request.shortening.edits:
            return request
        info = await deployment.backend.info()
        count = partial(self._count, deployment=deployment, context=context)
        request = await edited(request, count, info.limits.max_model_len)
        context.notes.cleared_tokens = sum(edit.tokens for edit in request.shortening.applied)
        return request

    @asked_again
    async def _count(
        self, request: ChatRequest, deployment: Deployment, context: RequestContext
    ) -> int:
        found = await self._prepared(request, deployment)
        found = await self._constraints.offered(found, deployment, context)
        return await deployment.backend.count(found.count_message())

    async def _prepared(self, request: ChatRequest, deployment: Deployment) -> Prepared:
        request = await with_images(self._images, request, deployment)
        return prepared(request, await deployment.backend.info())


def _check_trace(request: ChatRequest, context: RequestContext) -> None:
    has_master_key = context.caller.authenticated and context.caller.key is None
    if request.extras.trace and not has_master_key:
        raise PermissionDenied(
            "`stream_options.toolgate_trace` requires the gateway's master key, because the "
            "backend computes each mask of such a response twice."
        )
