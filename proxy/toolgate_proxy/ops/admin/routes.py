"""HTTP routes for the administrator.

`POST /toolgate/prewarm`        `PrewarmRequest` → `PrewarmResponse`
`GET  /toolgate/status`         `status.Status`: models, their backends, keys and limits
`GET  /toolgate/keys`           `keys.KeyList`: virtual keys and their use
`POST /toolgate/schema`         `SchemaRequest` → `SchemaResponse`
`GET  /toolgate/metrics`        Prometheus text format
`POST /toolgate/tools`          `ToolsRequest` → `ToolsResponse`
`POST /toolgate/unconstrained`  a body of chat completions → server-sent events: `{"text": …}` for
                                each token, and at the end `{"judgement": Judgement}`

All require the master key. A virtual key must not fill the backends' caches or read other traffic.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import aclosing
from typing import Annotated, Any, TypeVar

import orjson
from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest, InvalidTools, ModelNotFound, ToolgateError
from toolgate_core.pointer import request_path
from toolgate_core.wire import MAX_INSTANCES

from ...api.chat_completions.chunks import DONE, server_sent
from ...api.surfaces import COMPLETIONS
from ...chat.generation import Unconstrained
from ...context import RequestContext
from ...litellm_host.auth import require_administrator
from ...litellm_host.deployments.router import placements
from ...metrics import exposition
from ...routing.deployments import Deployment
from ...sealing import MASTER_KEY
from ...settings import settings
from ...state import gateway
from . import keys, status
from . import schemas as schema_report
from .prewarm import BackendReport, prewarm
from .schemas import BackendSchemas, Instance
from .tools import UnknownForm, read_document
from .unconstrained import judge


class PrewarmRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tools: list[Any]
    model: str | None = None
    """The model's name as clients send it; by default all models with Toolgate backends."""


class SchemaRequest(PrewarmRequest):
    instances: Annotated[list[Instance], Field(max_length=MAX_INSTANCES)] = []
    """Arguments of calls, to be walked through the masks and validated."""


class PrewarmResponse(BaseModel):
    backends: list[BackendReport]


class SchemaResponse(BaseModel):
    backends: list[BackendSchemas]


class ToolsRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tools: Any
    """A tool, a list of tools, a request with `tools`, or the result of MCP's `tools/list`, in the
    form of OpenAI, Anthropic or MCP."""


class ToolsResponse(BaseModel):
    tools: list[dict[str, Any]]
    """In the form of chat completions."""
    omitted: list[str]
    """Types of hosted tools, which have no schema."""


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
    body = await _read(request, PrewarmRequest)
    backends = await prewarm(_targets(body.model), body.tools, settings())
    return JSONResponse(PrewarmResponse(backends=backends).model_dump(exclude_none=True))


@router.post("/schema")
async def schema_route(request: Request) -> Response:
    body = await _read(request, SchemaRequest)
    validators = gateway().engine.validators
    backends = await schema_report.report_by_backends(
        _targets(body.model), body.tools, settings(), body.instances, validators
    )
    return JSONResponse(SchemaResponse(backends=backends).model_dump(exclude_none=True))


@router.get("/status")
async def status_route() -> Response:
    return JSONResponse(status.status(gateway().deployments).model_dump(mode="json"))


@router.get("/keys")
async def keys_route() -> Response:
    return JSONResponse((await keys.list_keys(gateway())).model_dump(mode="json"))


@router.get("/metrics")
async def metrics_route() -> Response:
    return Response(exposition(), media_type=CONTENT_TYPE_LATEST)


@router.post("/tools")
async def tools_route(request: Request) -> Response:
    try:
        found = read_document((await _read(request, ToolsRequest)).tools)
    except UnknownForm as error:
        steps = error.place.split("/")[1:]
        place = request_path(["tools", *(int(each) if each.isdigit() else each for each in steps)])
        raise InvalidTools(f"{place}: {error}", param=place) from error
    response = ToolsResponse(tools=found.tools, omitted=[kind for _, kind in found.hosted])
    return JSONResponse(response.model_dump())


@router.post("/unconstrained")
async def unconstrained_route(request: Request) -> Response:
    generation = await _begun(await _body(request))
    return StreamingResponse(_events(generation), media_type="text/event-stream")


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
    """Return the backends of a model, or of all. Raises ModelNotFound if there is none."""
    found = deployments_of(model)
    if not found:
        which = f"named {model!r}" if model else "with a Toolgate backend"
        message = f"There is no model {which}. `GET /toolgate/status` lists the models."
        raise ModelNotFound(message, param="model")
    return found


def deployments_of(model: str | None) -> list[Deployment]:
    """Return the Toolgate backends of a model, or of all models, without duplicates."""
    all_deployments = map(gateway().deployments.at, placements(model))
    return list({id(each): each for each in all_deployments}.values())


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = orjson.loads(await request.body())
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(f"The body is not valid JSON: {error}.") from error
    if not isinstance(body, dict):
        raise InvalidRequest("The body must be an object. Send a request for a chat completion.")
    return body


async def _begun(body: dict[str, Any]) -> Unconstrained:
    model = body.get("model")
    found = placements(model) if isinstance(model, str) else []
    if not found:
        raise ModelNotFound(f"There is no Toolgate model {model!r}.", param="model")
    state, placement, context = gateway(), found[0], RequestContext()
    request = state.reader.read(COMPLETIONS, body, context, model=placement.model, owner=MASTER_KEY)
    request = await state.documents.read(request, MASTER_KEY, context)
    if request.sampling.n > 1:
        raise InvalidRequest("'n' must be 1 here.", param="n")
    return await state.engine.unconstrained(request, state.deployments.at(placement))


async def _events(generation: Unconstrained) -> AsyncIterator[bytes]:
    text, ended, reason = "", "", "stop"
    found, ends = generation.prepared, generation.ends
    try:
        async with aclosing(generation.events) as batches:
            async for batch in batches:
                for event in batch:
                    match event:
                        case wire.TokensEvent():
                            for token, piece in zip(event.ids, event.texts, strict=True):
                                text, ended = text + ended, ""
                                if token in ends:
                                    ended = piece
                                else:
                                    text += piece
                            yield server_sent([{"text": "".join(event.texts)}])
                        case wire.EndEvent():
                            text += event.text
                            reason = event.finish_reason
        validators = gateway().engine.validators
        judgement = await judge(text, reason, found.request, found.plan, found.dialect, validators)
        yield server_sent([{"judgement": judgement.model_dump()}])
    except ToolgateError as error:
        yield server_sent([error.body()])
    yield DONE
