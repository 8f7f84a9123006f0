"""LiteLLM's custom provider `toolgate`, with the engine of our own route. `toolgate proxy` uses it
only for what that does not support (model_route.py), `litellm --config` for every request."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from litellm.llms.custom_llm import CustomLLM
from litellm.types.utils import ModelResponse, ModelResponseStream

from toolgate_core.errors import UnsupportedParameter

from ...api.chat_completions.output import ChatWriter, Chunk
from ...api.surfaces import COMPLETIONS
from ...chat.failover import Events
from ...chat.response import ChatResponse
from ...routing.deployments import Deployment, Placement
from ...state import gateway
from ..callbacks.later_texts import guard_of_call
from ..context import current, owner_of
from ..errors import errors_raised, host_error
from ..routing.router import group_of, model_names, rows_of
from ..routing.selection import selection
from .patches import WHOLE, register
from .refused import unsupported


class Toolgate(CustomLLM):  # type: ignore[misc]  # LiteLLM's types are not read
    """Provider of the models `toolgate/<model on the backend>`, with `api_base` and `api_key`."""

    async def acompletion(self, **kwargs: Any) -> ModelResponse:
        call, context = read_call(kwargs, stream=False), current()
        with errors_raised(call.placement.model):
            async with _responding(call) as (writer, answer, events):
                whole = writer.response(answer, answer.head.model)
                async for pieces in events:
                    whole.add(pieces)
            context.meter.complete = True
            return ModelResponse(**whole.body())

    async def astreaming(self, **kwargs: Any) -> AsyncGenerator[ModelResponseStream, None]:
        call, context = read_call(kwargs, stream=True), current()
        with errors_raised(call.placement.model):
            async with _responding(call) as (writer, answer, events):
                response = writer.response(answer, answer.head.model)
                response.logged = True
                async for pieces in events:
                    for chunk in response.shown(pieces):
                        yield ModelResponseStream(**_kept(chunk))
            context.meter.complete = True
            for chunk in response.last():
                yield ModelResponseStream(**chunk)
            setattr(call.logging, WHOLE, ModelResponse(**response.body()))

    async def aembedding(self, *_: Any, **__: Any) -> Any:
        raise _unsupported("embeddings")

    async def aimage_generation(self, *_: Any, **__: Any) -> Any:
        raise _unsupported("image generation")

    async def aimage_edit(self, *_: Any, **__: Any) -> Any:
        raise _unsupported("image editing")


def _unsupported(operation: str) -> Exception:
    """Return the error for requests that the hook in limit_hook.py did not refuse:
    those to a model that also has deployments of another provider."""
    return host_error(unsupported(operation), "")


def _kept(chunk: Chunk) -> Chunk:
    """Keep a chunk with an empty delta from being dropped by LiteLLM; it may have token ids."""
    for choice in chunk["choices"]:
        if not choice["delta"] and choice["finish_reason"] is None:
            choice["delta"] = {"content": ""}
    return chunk


@asynccontextmanager
async def _responding(call: ProviderCall) -> AsyncIterator[tuple[ChatWriter, ChatResponse, Events]]:
    """Respond with the deployment that LiteLLM selected, or with another one if that fails."""
    here, messages = gateway(), call.body["messages"]
    model = call.group or call.placement.model
    placement = selection().replica(model, call.placement, call.body, call.owner)
    base = {"api_base": placement.api_base}
    call.logging.pre_call(messages, None, additional_args=base)
    context, model = current(), placement.model
    notes, owner = context.notes, call.owner
    request, writer = here.reader.read(COMPLETIONS, call.body, notes, model=model, owner=owner)
    assert isinstance(writer, ChatWriter)
    if any(tool.custom for tool in request.tools):
        raise UnsupportedParameter(
            "Custom tools are not supported on LiteLLM's route, which has no form for their calls. "
            "Use the gateway's own route (docs/guide/gateway.md), or offer functions.",
            param="tools",
        )
    request = await here.reader.completed(request, owner, context)
    context.guard = guard_of_call(call.metadata, call.logging, call.body)
    request = await context.guarded_request(request)
    respond = here.failover.respond
    async with respond(request, placement, call.alternatives, context) as (answer, events):
        yield writer, answer, events


toolgate = register(Toolgate())
"""The handler for `custom_provider_map` in LiteLLM's configuration."""


@dataclass(frozen=True)
class ProviderCall:
    """One call of our provider by LiteLLM. `body`: the request's body as the client sent it."""

    placement: Placement
    group: str | None
    """The model's name in LiteLLM's router."""
    owner: str
    """The team or key that sent the request."""
    body: dict[str, Any]
    logging: Any
    metadata: Mapping[str, Any]
    """What LiteLLM's hooks get of the sender."""

    def alternatives(self, tried: Deployment) -> list[Placement]:
        rows = rows_of(self.group) if self.group else []
        return selection().alternatives(rows, tried)


def read_call(arguments: Mapping[str, Any], *, stream: bool) -> ProviderCall:
    """Read the arguments of `CustomLLM.acompletion` and `astreaming`.

    LiteLLM removes some fields of the body, which are restored here: `priority`, which it uses for
    its own queue, and `tools` that are not objects, which it drops without an error.
    """
    params = dict(arguments["optional_params"])
    params |= params.pop("extra_body", None) or {}
    about = arguments["litellm_params"]
    sent = (about.get("proxy_server_request") or {}).get("body") or {}
    tools = sent.get("tools")
    if tools and not (isinstance(tools, list) and all(isinstance(tool, dict) for tool in tools)):
        params["tools"] = tools
    if "priority" in sent:
        params["priority"] = sent["priority"]
    model, group = arguments["model"], group_of(about)
    configured = group if group in model_names() else None  # no client chooses it
    return ProviderCall(
        placement=Placement(model, arguments["api_base"], arguments["api_key"], configured),
        group=group,
        owner=owner_of(about),
        body={**params, "model": model, "messages": arguments["messages"], "stream": stream},
        logging=arguments["logging_obj"],
        metadata=about.get("metadata") or {},
    )
