"""What LiteLLM's hooks and log events get of a request: the body with LiteLLM's own fields, and
LiteLLM's logging object. From them LiteLLM's own code makes the headers that describe a response:
the deployment, what it cost, and what is left of budgets and limits.

LiteLLM knows the cost and the duration only of whole responses, and counts the limits of a key for
them. Of a stream it describes what is known when it begins.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from importlib.metadata import version
from typing import Any

import litellm
import litellm.utils
from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.common_request_processing import ProxyBaseLLMRequestProcessing
from litellm.proxy.litellm_pre_call_utils import add_litellm_data_to_request
from starlette.requests import Request

from toolgate_core.host_probe import optional

from ...api.surface import Surface
from ...context import Guard, RequestContext
from ...keys.access import Header
from ...request_fields import copied
from ..errors import PROVIDER
from ..proxy_server import litellm_proxy
from ..routing.fallbacks import Fallbacks
from ..routing.router import PRICES, Row, alias_target, id_of, placement_of, router
from .guardrail_inputs import PROMPT, TOOLS
from .later_texts import LaterTexts
from .response_forms import logged_response

VERSION = version("litellm")
UNSEEN = frozenset({"previous_response_id"})
"""Parameters that LiteLLM does not get. It refuses ids of responses that it did not make."""
LITELLMS = frozenset({"metadata", "litellm_metadata"})
"""Where LiteLLM and its hooks keep data of their own. The request keeps what the client sent."""
SESSION = ("litellm_session_id", "litellm_trace_id")
"""What a request belongs to in log events."""
GUARDRAILS = "guardrails"
SECRET_HEADERS: list[Callable[[Collection[Header]], frozenset[str]]] = []
"""Functions of features. They return the names of headers that hooks and log events do not get."""


def request_of(scope: MutableMapping[str, Any]) -> Request:
    """Return a request as LiteLLM's code gets it, without headers that only features may see."""
    named = (name for names in SECRET_HEADERS for name in names(scope["headers"]))
    hidden = {name.encode("latin-1") for name in named}
    headers = [each for each in scope["headers"] if each[0] not in hidden]
    return Request({**scope, "headers": headers} if hidden else scope)


class RequestData:
    """What LiteLLM's hooks get of a request. `body`: as the client sent it."""

    def __init__(
        self,
        request: Request,
        caller: UserAPIKeyAuth,
        body: Mapping[str, Any],
        surface: Surface,
        context: RequestContext,
    ) -> None:
        self.caller = caller
        self.body = body
        self.call_type = surface.call_type
        # Naive, like LiteLLM's.
        self.began = datetime.datetime.fromtimestamp(context.outcome.arrived)
        self.request = request
        self.context = context
        self.logging: Any = None
        """LiteLLM's logging object, once there are data."""
        self.row: Row | None = None
        """The deployment, once it is chosen."""
        self._names = surface.parameters - UNSEEN
        self._data: dict[str, Any] | None = None
        self._tags: Sequence[str] | None = None
        """Of the request, without those of its deployment."""
        self._guardrails: list[Any] = []
        """Those of the models at which the request was."""

    async def prepare(self) -> dict[str, Any]:
        """Return the body with LiteLLM's own fields. Creates LiteLLM's logging object."""
        if self._data is None:
            self.request.state.litellm_received_at = self.began.astimezone()
            data = await add_litellm_data_to_request(
                # Known parameters only: other fields could become arguments of LiteLLM's functions.
                data={
                    name: value
                    for name, value in copied(self.body).items()
                    if name in self._names and (name not in LITELLMS or isinstance(value, dict))
                },
                request=self.request,
                user_api_key_dict=self.caller,
                proxy_config=litellm_proxy().proxy_config,
                general_settings=litellm_proxy().general_settings,
                version=VERSION,
            )
            data["litellm_call_id"] = self.context.call_id
            # Without rules: where there are any, requests take LiteLLM's route.
            self.logging, self._data = litellm.utils.function_setup(
                self.call_type, None, self.began, **data
            )
            self._data["litellm_logging_obj"] = self.logging
        return self._data

    async def guard(
        self, body: Mapping[str, Any], errors: Callable[[], AbstractContextManager[None]]
    ) -> Guard:
        """Return what shows later texts to guardrails. `body`: as the hooks left it. `errors`
        raises the exceptions of hooks as ToolgateErrors."""
        return LaterTexts(await self.prepare(), self.caller, body, errors).guarded

    @property
    def is_ours(self) -> bool:
        """Our own authentication accepted the key, and counts the use of its key."""
        return self.context.caller.authenticated

    @property
    def stays(self) -> bool:
        """LiteLLM's key allows no fallbacks."""
        return (self._data or {}).get("disable_fallbacks") is True

    def take(self, changed: dict[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
        """Take the data as the hooks changed them. Return `body` as it is in them."""
        self._data = changed
        return self.as_in(changed, body)

    def as_in(self, changed: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
        """Return `body` with the parameters that `changed` has instead, if they differ."""
        seen = self._names - LITELLMS
        known = copied({name: changed[name] for name in seen & changed.keys()})
        known |= {
            name: body[name] for name in known.keys() & body.keys() if body[name] == known[name]
        }
        return known | {name: value for name, value in body.items() if name not in seen}

    async def require(self, guardrails: Sequence[Any]) -> None:
        """Let LiteLLM run the guardrails of a model besides those of the request.

        LiteLLM reads them from one of two places, and adds those of the model to the other one,
        which then hides the request's. So both have all."""
        self._guardrails += guardrails
        if not guardrails:
            return
        data = await self.prepare()
        places = [data.get(name) or {} for name in sorted(LITELLMS)]
        named = [*(each for place in places for each in place.get(GUARDRAILS) or ()), *guardrails]
        unique = [each for at, each in enumerate(named) if each not in named[:at]]
        for name in ("metadata", *(LITELLMS & data.keys())):
            data[name] = data.get(name) or {}
            data[name][GUARDRAILS] = unique

    def lacks(self, guardrails: Sequence[Any], parameters: Mapping[str, Any]) -> bool:
        """Return whether a fallback has guardrails that have not seen the request, or parameters
        with texts that none has seen."""
        unseen = parameters.keys() & {*PROMPT, TOOLS}
        return bool(unseen) or any(each not in self._guardrails for each in guardrails)

    async def at_fallback(self, body: Mapping[str, Any]) -> None:
        """Take the body for a fallback, which begins with the earlier turns of its conversation."""
        (await self.prepare()).update(self.seen(body))

    def seen(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the parameters that hooks get, without LiteLLM's data."""
        names = self._names - LITELLMS
        return {name: value for name, value in copied(body).items() if name in names}

    def next_model(self, fallbacks: Fallbacks) -> None:
        """Forget the deployment of the model that failed: the request is at a fallback."""
        self.row = None
        if self._data is not None:
            metadata = _metadata_of(self._data)
            metadata["original_model_group"] = fallbacks.first.model
            metadata["attempted_fallbacks"] = fallbacks.attempted
            if self._tags is not None:
                metadata["tags"] = self._tags

    async def describe(self, model: str, *, stream: bool) -> dict[str, Any]:
        """Add the model and the deployment to the data and to the logging object."""
        data = await self.prepare()
        metadata = _metadata_of(data)
        alias = model if alias_target(model) is not None else None
        metadata |= {"model_group": model, "model_group_alias": alias}
        if self._tags is None:
            self._tags = metadata.get("tags") or ()
        data["model"] = model
        params: dict[str, Any] = {}
        if self.row is not None:
            params = dict(self.row["litellm_params"])
            placement = placement_of(self.row)
            metadata |= {
                "attempted_fallbacks": metadata.get("attempted_fallbacks", 0),
                "original_model_group": metadata.get("original_model_group", model),
                "deployment": params["model"],
                "model_info": dict(self.row.get("model_info") or {}),
                "api_base": params.get("api_base"),
                "deployment_model_name": self.row["model_name"],
                "tags": list(dict.fromkeys([*self._tags, *(params.get("tags") or ())])),
            }
            data["model_info"] = metadata["model_info"]
            data["model"] = placement.model if placement else params["model"]
        optional = {
            name: value
            for name, value in data.items()
            if name in self._names and name not in ("model", "messages", "input", "metadata")
        }
        optional["stream"] = stream
        provider = PROVIDER if self.row is not None else None
        self.logging.messages = data.get("messages") or []  # hooks may have changed them
        self.logging.stream = stream
        self.logging.update_from_kwargs(
            kwargs=data,
            model=data["model"],
            user=data.get("user"),
            optional_params=optional,
            litellm_params={
                "acompletion": True,
                "api_base": params.get("api_base"),
                "custom_llm_provider": provider,
                "litellm_call_id": data["litellm_call_id"],
                "metadata": metadata,
                "model_info": data.get("model_info"),
                "proxy_server_request": data.get("proxy_server_request"),
                "cooldown_time": params.get("cooldown_time"),
                **{name: data[name] for name in SESSION if name in data},
                **{name: params[name] for name in PRICES & params.keys()},
            },
            custom_llm_provider=provider,
            stream=stream,
        )
        return data

    async def price(
        self,
        whole: Mapping[str, Any],
        model: str,
        ended: datetime.datetime,
        *,
        stream: bool = False,
    ) -> Any:
        """Return LiteLLM's object of a response, with its cost."""
        data = await self.describe(model, stream=stream)
        response = logged_response(self.call_type, whole, stream=stream)
        params = self.row["litellm_params"] if self.row is not None else {}
        litellm.utils.update_response_metadata(
            result=optional(response, "response", response),  # of the last event of a stream
            logging_obj=self.logging,
            model=params.get("model"),
            kwargs={**data, "api_base": params.get("api_base")},
            start_time=self.began,
            end_time=ended,
        )
        return response

    async def with_cost(self, events: bytes, model: str) -> bytes:
        """Return events of a stream, with the cost in their usage if LiteLLM is set so."""
        if not litellm.include_cost_in_streaming_usage or b'"usage"' not in events:
            return events
        await self.describe(model, stream=True)
        add = ProxyBaseLLMRequestProcessing.process_chunk_with_cost_injection
        frames = (frame + b"\n\n" for frame in events.split(b"\n\n") if frame)
        return b"".join([add(frame, model, self.logging) for frame in frames])


def _metadata_of(data: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata that LiteLLM keeps beside the request's own ones, where it has both."""
    name = "litellm_metadata" if "litellm_metadata" in data else "metadata"
    metadata: dict[str, Any] = data.setdefault(name, {})
    return metadata


HIDDEN = "_hidden_params"
"""Where LiteLLM keeps what it knows of a response, in an object or a dict."""
UNSENT = frozenset(
    ("content-length", "content-type", "content-encoding", "transfer-encoding", "connection")
) | {"set-cookie", "retry-after"}
"""Headers of exceptions that are not sent: they are of another response, or are sent anyway."""
LIMITER = "litellm.proxy.hooks.parallel_request_limiter"
"""What the module of LiteLLM's callback that counts the limits of a key begins with."""


async def litellm_headers(data: RequestData, model: str, response: Any = None) -> dict[str, str]:
    """Return the headers. `model`: its name in the router. `response`: LiteLLM's object of a whole
    response; None: of a stream, or of an error."""
    prepared = await data.prepare()
    described: dict[str, Any] = {HIDDEN: dict(optional(response, HIDDEN) or {})}
    row = data.row
    if row is not None:
        await router().set_response_headers(described, model_group=model)
    for limiter in litellm.callbacks if response is not None else ():
        if type(limiter).__module__.startswith(LIMITER):
            await limiter.async_post_call_success_hook(
                data=prepared, user_api_key_dict=data.caller, response=described
            )
    hidden = described[HIDDEN]
    named = dict(hidden.get("additional_headers") or {})
    if row is not None:
        named["x-litellm-model-name"] = row["litellm_params"]["model"]
        named["x-litellm-attempted-fallbacks"] = data.context.attempted_fallbacks
    headers: dict[str, str] = ProxyBaseLLMRequestProcessing.get_custom_headers(
        user_api_key_dict=data.caller,
        call_id=data.context.call_id,
        model_id=id_of(row) if row is not None else None,
        version=VERSION,
        response_cost=hidden.get("response_cost") or "",
        hidden_params=hidden,
        request_data=prepared,
        litellm_logging_obj=data.logging if response is not None else None,
        **named,
    )
    return headers


def headers_of(error: BaseException | None) -> dict[str, str]:
    """Return the headers that an exception of LiteLLM or of a callback has for the response."""
    attribute = optional(error, "headers")
    headers = attribute if isinstance(attribute, Mapping) else {}
    return {name: str(value) for name, value in headers.items() if name.lower() not in UNSENT}
