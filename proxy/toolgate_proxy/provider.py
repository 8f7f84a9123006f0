"""LiteLLM's custom provider `toolgate`: the whole life of a request.

admit → plan → grammars → stream → shape; each step stands in the file that bears its name.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from litellm.llms.custom_llm import CustomLLM
from litellm.types.utils import ModelResponse, ModelResponseStream

from toolgate_core import wire
from toolgate_core.dialect import DIALECTS, Dialect
from toolgate_core.errors import BackendFailed, BackendUnavailable, GrammarUnknown
from toolgate_core.plan import ChatRequest, EnforcementPlan, make_plan

from . import litellm_host as host
from . import receipt
from .admission import admit
from .answer import Answer
from .backend_client import EventStream
from .deployments import Deployment, Deployments
from .frames import Frame, shaped
from .settings import Settings, settings
from .shaping import Chunks, WholeAnswer

SENDS = 6
"""Times that a request is sent at most, whose grammars the backend turns out to have lost."""


class Toolgate(CustomLLM):  # type: ignore[misc]  # LiteLLM's types are not read
    """`model: toolgate/<the backend's name of the model>`, with `api_base` and `api_key`."""

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.deployments = Deployments(settings)

    async def acompletion(self, **kwargs: Any) -> ModelResponse:
        call = host.read_call(kwargs)
        with host.errors_raised(call):
            request = admit(call.model, call.messages, call.params, stream=False)
            async with _exchange(request, self._deployment(call)) as (answer, events):
                whole = WholeAnswer(answer.head)
                async for batch in events:
                    whole.add(answer.feed(batch))
                    if answer.complete:
                        break
            return whole.response(answer.counts)

    async def astreaming(self, **kwargs: Any) -> AsyncGenerator[ModelResponseStream | Frame, None]:
        call = host.read_call(kwargs)
        with host.errors_raised(call):
            request = admit(call.model, call.messages, call.params, stream=True)
            async with _exchange(request, self._deployment(call)) as (answer, events):
                chunks = shaped(Chunks(answer.head), call.unread)
                whole = WholeAnswer(answer.head)
                async for batch in events:
                    pieces = answer.feed(batch)
                    whole.add(pieces)
                    for chunk in chunks.of(pieces):
                        yield chunk
                    if answer.complete:
                        break
            if request.include_usage and not (call.unread and call.unread.hides_usage):
                yield chunks.usage(answer.counts)
            host.note_for_logs(call, whole.response(answer.counts))

    def _deployment(self, call: host.Call) -> Deployment:
        return self.deployments.get(call.api_base, call.api_key)


@asynccontextmanager
async def _exchange(
    request: ChatRequest, deployment: Deployment
) -> AsyncIterator[tuple[Answer, EventStream]]:
    """The request sent and its answer begun; leaving the context ends the backend's work on it."""
    backend, grammars = deployment.backend, deployment.grammars
    for _ in range(SENDS):
        info = await backend.info()
        dialect = _dialect(info)
        plan = make_plan(request, dialect)
        loaded = await grammars.ensure(plan.candidates, request.tools, info)
        receipt.current().note(len(loaded.keys), loaded.tier, loaded.milliseconds)
        try:
            events = await backend.generate(_message(request, plan, loaded.keys))
            break
        except GrammarUnknown as unknown:
            grammars.forget(unknown.keys)
    else:
        raise BackendUnavailable(
            "The backend loses its grammars faster than they load; try again.", retry_after=1
        )
    receipt.current().enforced = "full" if request.tools else "none"
    try:
        yield Answer(request, plan, dialect, info), events
    finally:
        await events.aclose()


def _message(
    request: ChatRequest, plan: EnforcementPlan, grammar_keys: dict[str, str]
) -> wire.GenerateRequest:
    return wire.GenerateRequest(
        request_id=request.request_id,
        model=request.model,
        prompt=wire.ChatPrompt(
            messages=request.messages,
            tools=tuple(tool.definition for tool in request.tools) or None,
            template_kwargs=request.template_kwargs or {},
        ),
        sampling=request.sampling,
        enforcement=plan.wire(grammar_keys),
        # Only a stream can be closed at a stop string; otherwise the whole in one piece costs less.
        stream=request.stream or bool(request.stop),
        priority=request.priority,
        cache_salt=request.cache_salt,
    )


def _dialect(info: wire.Info) -> Dialect:
    if info.dialect not in DIALECTS:
        raise BackendFailed(
            f"The backend's dialect {info.dialect!r} is not known to this gateway: install the "
            "same release of toolgate on both."
        )
    return DIALECTS[info.dialect]


toolgate = host.register(Toolgate(settings()))
"""What `custom_provider_map` in LiteLLM's configuration names."""
