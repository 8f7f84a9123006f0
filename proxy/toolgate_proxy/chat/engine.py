"""Runs one chat request at one backend: plan → grammars → backend → segment → validate.

The engine is independent of API and host. Two wrappers call it: resampling.py samples a choice
again if its call failed validation, and failover.py moves a request if its backend fails.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest, HistoryChange
from toolgate_core.dialects.dialect import Dialect
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import (
    BackendFailed,
    BackendUnavailable,
    ContextLengthExceeded,
    GrammarUnknown,
    PermissionDenied,
    UnsupportedParameter,
)
from toolgate_core.plan import EnforcementPlan, make_plan

from .. import tracing
from ..backend_client.event_stream import EventStream
from ..context import RequestContext
from ..grammars.call_lengths import CallLengths
from ..receipts.keys import read_key
from ..routing.deployments import Deployment
from ..settings import Settings
from ..validation.service import ValidationService
from . import spans
from .held_calls import CallCheck
from .receipt_log import ReceiptLog
from .request import request_bounds
from .request.backend_request import backend_request, chat_prompt, schema_params
from .request.call_history import with_family_ids
from .request.call_room import with_room_for_call
from .request.images import Images, without_results
from .request.invalid_tools import InvalidTools, without
from .request.reasoning_switch import with_reasoning_switch
from .request.truncation import fitted
from .response import ChatResponse, ResponseEvent
from .retries import Resample, choice_events, resample_request
from .unconstrained import Unconstrained, unconstrained_request

MAX_SENDS = 6
"""Maximum number of times a request is sent while the backend evicts its grammars."""


@dataclass(frozen=True)
class Generation:
    """A request that a backend has accepted."""

    request: ChatRequest
    """In the terms of the model, without tools that are left out."""
    info: wire.Info
    dialect: Dialect
    plan: EnforcementPlan
    residual: Mapping[str, tuple[wire.ResidualKeyword, ...]]
    """By tool hash: keywords that the masks do not enforce."""
    keys: Mapping[str, str]
    """Grammar keys by tool name."""
    call_lengths: CallLengths
    events: EventStream
    span: tracing.Span = tracing.NONE


class Engine:
    def __init__(self, settings: Settings) -> None:
        self.validators = ValidationService()
        self._images = Images(fetch=settings.image_urls)
        self._resamples = settings.resamples
        self._omits_invalid = settings.invalid_tools == "omit"
        key = settings.receipt_key
        self._receipt_key = None if key is None else read_key(key.get_secret_value())

    async def begin(
        self, request: ChatRequest, deployment: Deployment, context: RequestContext
    ) -> tuple[ChatResponse, Generation]:
        """Raises ToolgateError if the request is refused or the backend fails."""
        if request.receipt and self._receipt_key is None:
            raise UnsupportedParameter(
                "This gateway signs no receipts, because TOOLGATE_RECEIPT_KEY is not set. Remove "
                "`receipt`.",
                param="toolgate.receipt",
            )
        if request.trace and not _has_master_key(context):
            raise PermissionDenied(
                "`stream_options.toolgate_trace` requires the gateway's master key, because the "
                "backend computes each mask of such a response twice."
            )
        request = await self._with_images(request, deployment, context)
        try:
            generation = await self.generate(request, deployment, context)
        except ContextLengthExceeded:
            if not request.drop_oldest:
                raise
            info = await deployment.backend.info()
            count = partial(self.count, deployment=deployment)
            shorter = await fitted(request, count, info.limits.max_model_len)
            context.dropped_messages = len(request.messages) - len(shorter.messages)
            generation = await self.generate(shorter, deployment, context)
        plan, residual = generation.plan, generation.residual
        residual_tools = [tool.name for tool in plan.candidates if tool.hash in residual]
        check = CallCheck(plan.candidates, residual_tools, self.validators, context.sender)
        dialect, info = generation.dialect, generation.info
        response = ChatResponse(generation.request, plan, dialect, info, check, self._resamples)
        if request.receipt and self._receipt_key is not None:
            response.receipts = ReceiptLog(self._receipt_key, plan, residual, info)
        return response, generation

    async def count(self, request: ChatRequest, deployment: Deployment) -> int:
        """The number of tokens of the prompt, after the checks of `begin` except those of grammars.
        Raises ToolgateError if the request is refused or the backend fails."""
        request = await self._with_images(request, deployment)
        info = await deployment.backend.info()
        dialect = _dialect(info)
        request_bounds.check(request, info)
        request = _for_dialect(request, dialect)
        make_plan(request, dialect)
        prompt, most = chat_prompt(request), request.sampling.max_tokens or 0
        return await deployment.backend.count(
            wire.CountTokens(model=request.model, prompt=prompt, max_tokens=most)
        )

    async def unconstrained(self, request: ChatRequest, deployment: Deployment) -> Unconstrained:
        """Generates without enforcement, from the same prompt as `generate`. Raises ToolgateError
        if the request is refused or the backend fails."""
        request = await self._with_images(request, deployment)
        info = await deployment.backend.info()
        dialect = _dialect(info)
        request_bounds.check(request, info)
        request = _for_dialect(request, dialect)
        plan = make_plan(request, dialect)
        message = unconstrained_request(request, chat_prompt(request))
        events = await deployment.backend.generate(message)
        ends = frozenset(info.marks.end_of_turn)
        return Unconstrained(request, plan, dialect, ends, events)

    async def _with_images(
        self, request: ChatRequest, deployment: Deployment, context: RequestContext | None = None
    ) -> ChatRequest:
        if not request.images:
            return request
        info = await deployment.backend.info()
        messages, places = request.messages, tuple[int, ...]()
        if not info.images:
            messages, places = without_results(messages)
        if context is not None:
            paths = (request.message_paths[at] for at in places)
            context.note_changes(HistoryChange("image", path) for path in paths)
        messages = await self._images.inlined(messages, accepts_images=info.images)
        return replace(request, messages=messages)

    async def generate(
        self,
        request: ChatRequest,
        deployment: Deployment,
        context: RequestContext,
        resample: Resample | None = None,
        deadline: float | None = None,
    ) -> Generation:
        """plan → grammars → backend. With `resample`, continues one choice; `deadline` is then the
        deadline of the first generation, by time.monotonic."""
        backend, grammars = deployment.backend, deployment.grammars
        for _ in range(MAX_SENDS):
            info = await backend.info()
            dialect = _dialect(info)
            request_bounds.check(request, info)
            request = _for_dialect(request, dialect)
            plan = make_plan(request, dialect)
            params = schema_params(request)
            invalid = InvalidTools(context, omit=self._omits_invalid)
            with spans.grammars(len(plan.grammars)) as note:
                loaded = await grammars.ensure(
                    plan.grammars, params, info, context.sender, invalid.leave_out
                )
                note(loaded)
            checked = [tool for tool in plan.candidates if tool.hash in loaded.keys]
            await self.validators.prepare(checked, params, context.sender, invalid.leave_out)
            if invalid.errors:
                request = without(request, invalid.errors)
                plan = make_plan(request, dialect)
            context.note_grammars(len(loaded.keys), loaded.tier, loaded.milliseconds)
            keys = {tool.name: loaded.keys[tool.hash] for tool in plan.candidates}
            plan = with_room_for_call(
                plan, request.sampling, deployment.call_lengths, keys.values()
            )
            message = backend_request(
                request,
                plan,
                loaded,
                context.request_id,
                metered=context.key is not None and context.key.limits.counts_output,
            )
            try:
                message = resample_request(message, resample) if resample else message
                span, events = await spans.begun(backend, message, deadline)
            except GrammarUnknown as unknown:
                grammars.forget(unknown.keys)
                continue
            context.note_enforcement(request.tools or request.content_format, loaded.residual)
            context.note_corrections(plan.grammars)
            lengths = deployment.call_lengths
            return Generation(
                request, info, dialect, plan, loaded.residual, keys, lengths, events, span
            )
        raise BackendUnavailable(
            f"The backend evicted grammars of this request {MAX_SENDS} times before the request "
            "could start. Try again in a second. If this persists, raise TOOLGATE_MAX_GRAMMARS of "
            "the backend.",
            retry_after=1,
        )

    async def events(
        self,
        response: ChatResponse,
        generation: Generation,
        context: RequestContext,
        resample: Resample | None = None,
    ) -> AsyncGenerator[list[ResponseEvent], None]:
        """segment → validate. A batch contains everything that had arrived from the backend."""
        async with spans.ending(generation.span), aclosing(generation.events) as batches:
            async for batch in batches:
                fed = choice_events(batch, resample.choice) if resample else batch
                events = await response.feed(fed)
                await context.admit_prompt(response.counts.prompt)
                context.note_tokens(response.counts.prompt, response.counts.completion)
                if events:
                    generation.span.first("first output")
                yield events
                if response.complete:
                    break
        for name, tokens in response.call_lengths:
            generation.call_lengths.note(generation.keys[name], tokens)


def _has_master_key(context: RequestContext) -> bool:
    return context.authenticated and context.key is None


def _for_dialect(request: ChatRequest, dialect: Dialect) -> ChatRequest:
    """The request in the terms of the model's chat template. Idempotent: a request that is sent
    again stays the same."""
    messages = with_family_ids(request.messages, dialect)
    if messages is not request.messages:
        request = replace(request, messages=messages)
    return with_reasoning_switch(request, dialect)


def _dialect(info: wire.Info) -> Dialect:
    if info.dialect not in DIALECTS:
        raise BackendFailed(
            f"The backend uses the unknown dialect {info.dialect!r}. Install the same release of "
            "toolgate on the gateway and the backend."
        )
    return DIALECTS[info.dialect]
