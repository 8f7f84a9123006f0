"""LiteLLM's custom provider `toolgate`: the whole life of a request.

admit → plan → grammars → stream → last look → shape; each step stands in the file that bears its
name. A choice whose call turns out wrong is sampled again (resampling.py).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from litellm.llms.custom_llm import CustomLLM
from litellm.types.utils import ModelResponse, ModelResponseStream

from toolgate_core import keys, wire
from toolgate_core.dialect import DIALECTS, Dialect
from toolgate_core.errors import (
    BackendFailed,
    BackendUnavailable,
    GrammarUnknown,
    InvalidRequest,
)
from toolgate_core.plan import ChatRequest, EnforcementPlan, make_plan

from . import meter, metrics, receipt
from .api.chat_completions.request import admit
from .api.chat_completions.shaping import Chunks, WholeAnswer
from .chat.answer import Answer, Piece
from .chat.call_check import LastLook
from .chat.failover import Answered, first_answer
from .chat.images import Images
from .chat.resampling import Resample, of_choice, request_again
from .deployments import Deployment, Deployments
from .event_stream import EventStream
from .frames import Frame, shaped
from .grammars import Loaded
from .litellm_host import least_busy as litellm_busy
from .litellm_host import patches as host
from .settings import Settings, settings
from .validators import Validators

SENDS = 6
"""Times that a request is sent at most, whose grammars the backend turns out to have lost."""


class Toolgate(CustomLLM):  # type: ignore[misc]  # LiteLLM's types are not read
    """`model: toolgate/<the backend's name of the model>`, with `api_base` and `api_key`."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.deployments = Deployments(settings)
        self._validators = Validators(settings)
        self._images = Images(settings)
        self._resamples = settings.resamples
        self._open_objects = settings.open_objects

    async def acompletion(self, **kwargs: Any) -> ModelResponse:
        call = host.read_call(kwargs)
        litellm_busy.began(call.logging, call.messages, call.api_base)
        with host.errors_raised(call):
            request = self._admitted(call, stream=False)
            async with self._answered(request, call) as (answer, arriving):
                whole = WholeAnswer(answer)
                async for pieces in arriving:
                    whole.add(pieces)
            return whole.response()

    async def astreaming(self, **kwargs: Any) -> AsyncGenerator[ModelResponseStream | Frame, None]:
        call = host.read_call(kwargs)
        litellm_busy.began(call.logging, call.messages, call.api_base)
        with host.errors_raised(call):
            request = self._admitted(call, stream=True)
            async with self._answered(request, call) as (answer, arriving):
                chunks, whole = shaped(Chunks(answer), call.unread), WholeAnswer(answer)
                async for pieces in arriving:
                    whole.add(pieces)
                    for chunk in chunks.of(pieces):
                        yield chunk
            meter.note(answer.counts.prompt, answer.counts.completion, complete=True)
            if request.include_usage and not (call.unread and call.unread.hides_usage):
                yield chunks.usage()
            host.note_for_logs(call, whole.response())

    def _admitted(self, call: host.Call, *, stream: bool) -> ChatRequest:
        given = call.model, call.messages, call.params
        return admit(*given, stream=stream, open_objects=self._open_objects)

    def _answered(self, request: ChatRequest, call: host.Call) -> Answered:
        """By the deployment that LiteLLM chose, or by another if that one is lost."""

        def at(deployment: Deployment, model: str) -> Answered:
            return self._answered_by(deployment, replace(request, model=model))

        return first_answer(self.deployments, call, at)

    @asynccontextmanager
    async def _answered_by(
        self, deployment: Deployment, request: ChatRequest
    ) -> AsyncIterator[tuple[Answer, AsyncIterator[list[Piece]]]]:
        """The request sent and its answer begun, with the pieces that arrive of it; leaving the
        context ends the backend's work on it."""
        info = await deployment.backend.info()
        messages = await self._images.inlined(request.messages, sees=info.images)
        request = replace(request, messages=messages)
        sent = await _send(request, deployment, self._validators)
        residual = [tool.name for tool in sent.plan.candidates if tool.hash in sent.residual]
        look = LastLook(sent.plan.candidates, residual, self._validators)
        answer = Answer(request, sent.plan, sent.dialect, sent.info, look, self._resamples)
        async with aclosing(self._pieces(answer, request, sent, deployment)) as pieces:
            yield answer, pieces

    async def _pieces(
        self, answer: Answer, request: ChatRequest, sent: _Sent, deployment: Deployment
    ) -> AsyncGenerator[list[Piece], None]:
        """First of the request as it was sent, then of each choice that is to be sampled again."""
        again: Resample | None = None
        while True:
            async with aclosing(sent.events) as events:
                async for batch in events:
                    pieces = await answer.feed(of_choice(batch, again.choice) if again else batch)
                    meter.note(answer.counts.prompt, answer.counts.completion)
                    yield pieces
                    if answer.complete:
                        break
            again = answer.resample()
            if again is None:
                return
            sent = await self._send_again(request, sent, again, deployment)

    async def _send_again(
        self, request: ChatRequest, before: _Sent, again: Resample, deployment: Deployment
    ) -> _Sent:
        metrics.RESAMPLES.inc()
        receipt.current().resamples += 1
        try:
            ends_at = before.events.deadline
            sent = await _send(request, deployment, self._validators, again, ends_at)
        except InvalidRequest as refused:  # what is left of its budget is too little, say
            raise again.failed from refused
        if sent.info.tokenizer != before.info.tokenizer:
            await sent.events.aclose()
            raise BackendFailed("The backend changed its model in mid-answer; try again.")
        return sent


@dataclass(frozen=True)
class _Sent:
    """A request that a backend has begun to answer."""

    info: wire.Info
    dialect: Dialect
    plan: EnforcementPlan
    residual: Mapping[str, tuple[wire.ResidualKeyword, ...]]
    """By tool hash: what the masks leave open."""
    events: EventStream


async def _send(
    request: ChatRequest,
    deployment: Deployment,
    validators: Validators,
    again: Resample | None = None,
    deadline: float | None = None,
) -> _Sent:
    """plan → grammars → the backend, which may have lost them: then once more."""
    backend, grammars = deployment.backend, deployment.grammars
    for _ in range(SENDS):
        info = await backend.info()
        dialect = _dialect(info)
        plan = make_plan(request, dialect)
        param_of = _param_of(request)
        loaded = await grammars.ensure(plan.grammars, param_of, info)
        await validators.prepare(plan.candidates, param_of)
        receipt.current().note(len(loaded.keys), loaded.tier, loaded.milliseconds)
        message = _message(request, plan, loaded)
        try:
            message = request_again(message, again) if again else message
            events = await backend.generate(message, deadline)
        except GrammarUnknown as unknown:
            grammars.forget(unknown.keys)
            continue
        receipt.current().enforced_by(request.tools or request.content_format, loaded.residual)
        return _Sent(info, dialect, plan, loaded.residual, events)
    raise BackendUnavailable(
        "The backend loses its grammars faster than they load; try again.", retry_after=1
    )


def _message(request: ChatRequest, plan: EnforcementPlan, loaded: Loaded) -> wire.GenerateRequest:
    # The client's own id may come twice; the engine's must not.
    given = receipt.current().request_id
    return wire.GenerateRequest(
        request_id=f"{given}.{request.request_id}" if given else request.request_id,
        model=request.model,
        prompt=wire.ChatPrompt(
            messages=request.messages,
            tools=tuple(tool.definition for tool in request.tools) or None,
            template_kwargs=request.template_kwargs or {},
            tokenizing=request.tokenizing,
        ),
        sampling=request.sampling,
        enforcement=plan.wire(loaded.keys),
        # Only a stream can be closed at a stop, or at a call that turns out wrong; otherwise the
        # whole in one piece costs less.
        stream=request.stream
        or bool(request.stop or request.sampling.stop_token_ids or loaded.residual),
        return_prompt_ids=request.return_token_ids,
        return_prompt_text=request.return_prompt_text,
        tokens_as_ids=request.tokens_as_ids,
        priority=request.priority,
        cache_salt=request.cache_salt,
    )


def _param_of(request: ChatRequest) -> dict[str, str]:
    """Where in the request's body each schema stands, by its tool's name."""
    if request.legacy_functions:
        params = {tool.name: f"functions[{at}]" for at, tool in enumerate(request.tools)}
    else:
        params = {tool.name: f"tools[{at}].function" for at, tool in enumerate(request.tools)}
    schemas = {name: f"{param}.parameters" for name, param in params.items()}
    return schemas | {keys.CONTENT: request.content_param}


def _dialect(info: wire.Info) -> Dialect:
    if info.dialect not in DIALECTS:
        raise BackendFailed(
            f"The backend's dialect {info.dialect!r} is not known to this gateway: install the "
            "same release of toolgate on both."
        )
    return DIALECTS[info.dialect]


toolgate = host.register(Toolgate(settings()))
"""What `custom_provider_map` in LiteLLM's configuration names."""
