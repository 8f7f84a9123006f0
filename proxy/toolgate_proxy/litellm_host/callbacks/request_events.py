"""LiteLLM's hooks and log events for a request on our own route.

`before` runs the pre-call hooks. `succeeded` and `failed` run after the response was sent. They
create the log event that LiteLLM's handler would have created, with LiteLLM's own functions.
"""

from __future__ import annotations

import datetime
import logging
import traceback
import uuid
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import litellm
import litellm.utils
from litellm.litellm_core_utils.get_litellm_params import get_litellm_params
from litellm.proxy._types import UserAPIKeyAuth
from litellm.proxy.litellm_pre_call_utils import add_litellm_data_to_request
from litellm.types.llms.openai import ResponseCompletedEvent, ResponsesAPIResponse
from litellm.types.utils import ModelResponse
from starlette.requests import Request

from toolgate_core.errors import ToolgateError

from ...api.surface import Surface
from ...context import RequestContext
from ..deployments.model_route import target_of
from ..deployments.router import PROVIDER, Row, Target, placement_of, router, rows_of
from ..errors import HostRefused, host_error, own_error
from ..private_names import either
from .completions import completion_of
from .configured import wants_post_call, without_inert

logger = logging.getLogger("toolgate")


class RequestEvents:
    """Hooks and events of one request. `body`: as the client sent it."""

    def __init__(
        self,
        request: Request,
        caller: UserAPIKeyAuth,
        body: Mapping[str, Any],
        surface: Surface,
        context: RequestContext,
    ) -> None:
        self._request = request
        self._caller = caller
        self._body = body
        self._call_type = surface.call_type
        self._names = surface.parameters
        self._context = context
        self._began = datetime.datetime.fromtimestamp(context.arrived)  # naive, like LiteLLM's
        self._data: dict[str, Any] | None = None
        self._logging: Any = None
        self._row: Row | None = None
        self._routed = False
        """LiteLLM's router chose the deployment."""
        self._failure_hook_done = False
        self._first_event: datetime.datetime | None = None

    @classmethod
    def of_refused(
        cls, scope: MutableMapping[str, Any], surface: Surface, context: RequestContext
    ) -> RequestEvents:
        """Make the events of a request that was rejected before its model and caller were known."""
        context.call_id = context.call_id or uuid.uuid4().hex
        caller = UserAPIKeyAuth(request_route=scope["path"])
        return cls(Request(scope), caller, {}, surface, context)

    async def before(self) -> dict[str, Any]:
        """Run `async_pre_call_hook` of all callbacks and return the body that they return. Raises
        their exceptions."""
        from litellm.proxy import proxy_server

        data = await self._prepared()
        changed = await proxy_server.proxy_logging_obj.pre_call_hook(
            user_api_key_dict=self._caller, data=data, call_type=self._call_type
        )
        self._data = data = changed if isinstance(changed, dict) else data
        hidden = {name: value for name, value in self._body.items() if name not in self._names}
        known = {name: value for name, value in data.items() if name in self._names}
        if "metadata" not in self._body:
            known.pop("metadata", None)  # LiteLLM's own
        return known | hidden

    async def choose(self, model: str, messages: object) -> Target:
        """Return the deployment that LiteLLM's router selects by limits, tags, order and
        strategy."""
        self._routed = True
        data = await self._prepared()
        self._row = await _within_limits(model, data, messages)
        data = await self._described(model, stream=bool(self._body.get("stream")))
        self._logging.pre_call(data.get("messages"), None)  # strategies count by it
        target = target_of(self._row)
        assert target is not None  # all deployments of the model are ours
        return target

    def chosen(self, row: Row) -> None:
        self._row = row

    def first_event(self) -> None:
        """Record the time of a stream's first event."""
        if self._first_event is None:
            self._first_event = datetime.datetime.now()

    async def succeeded(self, model: str, whole: Mapping[str, Any], *, stream: bool) -> None:
        """Create the success event. `model`: its name in the router; `whole`: the response body.
        Never raises."""
        ended = datetime.datetime.now()
        try:
            await self._succeeded(model, whole, stream, ended)
        except Exception as error:  # noqa: BLE001  a log event must not end the gateway
            logger.warning("A log event of LiteLLM failed (%s).", type(error).__name__)

    async def replaced(self, error: ToolgateError) -> ToolgateError:
        """Run `async_post_call_failure_hook`. Returns the error that it returns instead, or
        `error`. Never raises."""
        from litellm.proxy import proxy_server

        if not wants_post_call():
            return error
        try:
            raised = self._raised(error, self._body.get("model") or "")
            replacement = await proxy_server.proxy_logging_obj.post_call_failure_hook(
                request_data=await self._prepared(),
                original_exception=raised,
                user_api_key_dict=self._caller,
                traceback_str="".join(traceback.format_exception_only(raised)),
            )
        except Exception as problem:  # noqa: BLE001  a hook must not end the gateway
            logger.warning("A hook of LiteLLM failed (%s).", type(problem).__name__)
            return error
        self._failure_hook_done = True
        return error if replacement is None else own_error(replacement)

    def _raised(self, error: ToolgateError, model: str) -> Exception:
        if isinstance(error, HostRefused) and isinstance(error.__cause__, Exception):
            return error.__cause__  # the exception of a callback or of LiteLLM
        return host_error(error, model, ours=self._row is not None)

    async def failed(self, model: str, error: ToolgateError) -> None:
        """Create the failure event. Never raises."""
        try:
            await self._failed(model, error)
        except Exception as problem:  # noqa: BLE001  a log event must not end the gateway
            logger.warning("A log event of LiteLLM failed (%s).", type(problem).__name__)

    async def _succeeded(
        self, model: str, whole: Mapping[str, Any], stream: bool, ended: datetime.datetime
    ) -> None:
        from litellm.proxy import proxy_server

        data = await self._described(model, stream)
        log = self._logging
        response = _response(self._call_type, whole, stream=stream)
        if stream:
            either(log, "update_completion_start_time")(
                completion_start_time=self._first_event or ended
            )
        params = self._row["litellm_params"] if self._row is not None else {}
        litellm.utils.update_response_metadata(
            result=response,
            logging_obj=log,
            model=params.get("model"),
            kwargs={**data, "api_base": params.get("api_base")},
            start_time=self._began,
            end_time=ended,
        )
        if not self._routed:
            without_inert(log)
        moments = {"start_time": self._began, "end_time": ended}
        if stream:
            await log.dispatch_success_handlers(
                response, cache_hit=False, prefer_async_handlers=True, **moments
            )
        else:
            await log.async_success_handler(response, **moments)
            log.handle_sync_success_callbacks_for_async_calls(result=response, **moments)
        hooks = proxy_server.proxy_logging_obj
        await hooks.update_request_status(litellm_call_id=log.litellm_call_id, status="success")
        if wants_post_call():
            await hooks.post_call_success_hook(
                data=data, user_api_key_dict=self._caller, response=response
            )

    async def _failed(self, model: str, error: ToolgateError) -> None:
        from litellm.proxy import proxy_server

        data = await self._described(model, stream=bool(self._body.get("stream")))
        raised = self._raised(error, model)
        trace = "".join(traceback.format_exception_only(raised))
        await self._logging.dispatch_failure_handlers(raised, trace, prefer_async_handlers=True)
        if not self._failure_hook_done:
            await proxy_server.proxy_logging_obj.post_call_failure_hook(
                request_data=data,
                original_exception=raised,
                user_api_key_dict=self._caller,
                traceback_str=trace,
            )

    async def _prepared(self) -> dict[str, Any]:
        """Return the body with LiteLLM's own fields. Creates LiteLLM's logging object."""
        from litellm.proxy import proxy_server

        if self._data is None:
            self._request.state.litellm_received_at = self._began.astimezone()
            data = await add_litellm_data_to_request(
                # Known parameters only: other fields could become arguments of LiteLLM's functions.
                data={name: value for name, value in self._body.items() if name in self._names},
                request=self._request,
                user_api_key_dict=self._caller,
                proxy_config=proxy_server.proxy_config,
                general_settings=proxy_server.general_settings,
                version=proxy_server.version,
            )
            data["litellm_call_id"] = self._context.call_id
            self._logging, self._data = litellm.utils.function_setup(
                self._call_type, litellm.utils.Rules(), self._began, **data
            )
            self._data["litellm_logging_obj"] = self._logging
        return self._data

    async def _described(self, model: str, stream: bool) -> dict[str, Any]:
        """Add the deployment to LiteLLM's data and to its logging object."""
        data = await self._prepared()
        metadata = data.setdefault("metadata", {})
        held = router()
        alias = (
            model
            if held is not None and either(held, "get_model_from_alias")(model=model)
            else None
        )
        metadata |= {"model_group": model, "model_group_alias": alias}
        data["model"] = model
        params: dict[str, Any] = {}
        if self._row is not None:
            params = dict(self._row["litellm_params"])
            placement = placement_of(self._row)
            metadata |= {
                "deployment": params["model"],
                "model_info": dict(self._row.get("model_info") or {}),
                "api_base": params.get("api_base"),
                "deployment_model_name": self._row["model_name"],
                "tags": _merged(metadata.get("tags"), params.get("tags")),
            }
            data["model_info"] = metadata["model_info"]
            data["model"] = placement.model if placement else params["model"]
        optional = {
            name: value
            for name, value in data.items()
            if name in self._names and name not in ("model", "messages", "input", "metadata")
        }
        optional["stream"] = stream
        self._logging.update_messages(data.get("messages") or [])  # hooks may have changed them
        self._logging.update_from_kwargs(
            kwargs=data,
            model=data["model"],
            user=data.get("user"),
            optional_params=optional,
            litellm_params=get_litellm_params(
                acompletion=True,
                api_base=params.get("api_base"),
                custom_llm_provider=PROVIDER if self._row is not None else None,
                litellm_call_id=data["litellm_call_id"],
                metadata=metadata,
                model_info=data.get("model_info"),
                proxy_server_request=data.get("proxy_server_request"),
                input_cost_per_token=params.get("input_cost_per_token"),
                output_cost_per_token=params.get("output_cost_per_token"),
            ),
            custom_llm_provider=PROVIDER if self._row is not None else None,
            stream=stream,
        )
        self._logging.stream = stream
        self._logging.model_call_details["stream"] = stream
        return data


async def _within_limits(model: str, data: dict[str, Any], messages: object) -> Row:
    """Return the row that LiteLLM's router selects. Raises RateLimitError if all are at their
    limits.

    LiteLLM counts a request when it checks the selected row. From 1.110 on, other requests are
    selected for between the two, so that a row can be full although another one is not.
    """
    for left in reversed(range(max(1, len(rows_of(model))))):
        row: Row = await router().async_get_available_deployment(
            model=model, request_kwargs=data, messages=messages
        )
        try:
            await router().async_routing_strategy_pre_call_checks(
                deployment=row, parent_otel_span=None
            )
        except litellm.RateLimitError:
            if not left:
                raise
        else:
            break
    return row


def _response(call_type: str, whole: Mapping[str, Any], *, stream: bool) -> Any:
    """Return LiteLLM's object of a response; in a Responses stream it is that of the last event."""
    if call_type == "anthropic_messages":
        return ModelResponse(**completion_of(whole))
    if call_type != "aresponses":
        return ModelResponse(**whole)
    response = ResponsesAPIResponse(**whole)
    if not stream:
        return response
    return ResponseCompletedEvent(type="response.completed", response=response)


def _merged(tags: Sequence[str] | None, more: Sequence[str] | None) -> list[str]:
    return list(dict.fromkeys([*(tags or ()), *(more or ())]))
