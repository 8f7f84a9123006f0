"""HTTP routes for the administrator.

`POST /toolgate/prewarm`        `ToolsOfModel` → `{"backends": […]}` (`schemas.prewarm`)
`POST /toolgate/schema`         `SchemaRequest` → `{"backends": [reports.BackendSchemas]}`
`GET  /toolgate/status`         models, their backends, keys and limits (`status.status`)
`GET  /toolgate/keys`           virtual keys and their use (`status.list_keys`)
`GET  /toolgate/metrics`        Prometheus text format
`POST /toolgate/tools`          `PastedTools` → `tools` in the form of chat completions, and types
                                of hosted tools that were `omitted`, because they have no schema
`POST /toolgate/unconstrained`  a body of chat completions → server-sent events: `{"text": …}` for
                                each token, and at the end `{"judgement": Judgement}`

All require the master key. A virtual key must not fill the backends' caches or read other traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from toolgate_core.errors import InvalidRequest, InvalidTools, ModelNotFound, ToolgateError
from toolgate_core.pointer import request_path
from toolgate_core.wire import MAX_INSTANCES

from ...json_values import read_object
from ...litellm_host.auth import require_administrator
from ...litellm_host.router import placements
from ...metrics import exposition
from ...routing.deployments import Deployment
from ...settings import settings
from ...state import gateway
from . import status, unconstrained
from .schemas import Instance, prewarm, report_by_backends
from .tools import UnknownForm, read_document


class ToolsOfModel(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tools: list[Any]
    model: str | None = None
    """The model's name as clients send it; by default all models with Toolgate backends."""


class SchemaRequest(ToolsOfModel):
    instances: Annotated[list[Instance], Field(max_length=MAX_INSTANCES)] = []
    """Arguments of calls, to be walked through the masks and validated."""


class PastedTools(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tools: Any
    """A tool, a list of tools, a request with `tools`, or the result of MCP's `tools/list`, in the
    form of OpenAI, Anthropic or MCP."""


Model = TypeVar("Model", bound=BaseModel)
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class ErrorRoute(APIRoute):
    """A route whose errors are responses."""

    def get_route_handler(self) -> Handler:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except ToolgateError as error:
                return JSONResponse(error.body(), error.status)

        return handle


router = APIRouter(
    prefix="/toolgate", route_class=ErrorRoute, dependencies=[Depends(require_administrator)]
)


@router.post("/prewarm")
async def prewarm_route(request: Request) -> Response:
    body = await _read(request, ToolsOfModel)
    validators = gateway().engine.validators
    backends = await prewarm(_targets(body.model), body.tools, settings(), validators)
    return JSONResponse({"backends": backends})


@router.post("/schema")
async def schema_route(request: Request) -> Response:
    body = await _read(request, SchemaRequest)
    backends = await report_by_backends(
        _targets(body.model), body.tools, settings(), body.instances, gateway().engine.validators
    )
    return JSONResponse({"backends": [each.model_dump(exclude_none=True) for each in backends]})


@router.get("/status")
async def status_route() -> Response:
    return _json(status.status(gateway()))


@router.get("/keys")
async def keys_route() -> Response:
    return _json(await status.list_keys(gateway()))


@router.get("/metrics")
async def metrics_route() -> Response:
    return Response(exposition(), media_type=CONTENT_TYPE_LATEST)


@router.post("/tools")
async def tools_route(request: Request) -> Response:
    try:
        found = read_document((await _read(request, PastedTools)).tools)
    except UnknownForm as error:
        steps = error.place.split("/")[1:]
        place = request_path(["tools", *(int(each) if each.isdigit() else each for each in steps)])
        raise InvalidTools(f"{place}: {error}", param=place) from error
    return JSONResponse({"tools": found.tools, "omitted": [kind for _, kind in found.hosted]})


@router.post("/unconstrained")
async def unconstrained_route(request: Request) -> Response:
    body = read_object(await request.body())
    events = unconstrained.events(await unconstrained.begin(body))
    return StreamingResponse(events, media_type="text/event-stream")


def _json(content: object) -> Response:
    """Return a response whose content has moments, in UTC."""
    return Response(orjson.dumps(content, option=orjson.OPT_UTC_Z), media_type="application/json")


async def _read(request: Request, kind: type[Model]) -> Model:
    """Read the body of a request. Raises InvalidRequest."""
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors()[0]
        param = request_path(first["loc"]) or None
        message = f"Invalid {param or 'body'}: {first['msg']}."
        raise InvalidRequest(message, param=param) from error


def _targets(model: str | None) -> list[Deployment]:
    """Return the Toolgate backends of a model, or of all models, without duplicates. Raises
    ModelNotFound if there is none."""
    all_deployments = map(gateway().deployments.at, placements(model))
    found = list({id(each): each for each in all_deployments}.values())
    if not found:
        which = f"named {model!r}" if model else "with a Toolgate backend"
        message = f"There is no model {which}. `GET /toolgate/status` lists the models."
        raise ModelNotFound(message, param="model")
    return found
