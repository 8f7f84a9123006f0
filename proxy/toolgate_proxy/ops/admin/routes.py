"""HTTP routes for the administrator.

`POST /toolgate/prewarm`, `POST /toolgate/schema`
                                `ToolsOfModel`, which are loaded → `{"backends":
                                [reports.BackendSchemas]}`
`GET  /toolgate/status`         models, their backends, keys and limits (`status.status`)
`GET  /toolgate/keys`           virtual keys and their use (`status.list_keys`)
`GET  /toolgate/metrics`        Prometheus text format
`POST /toolgate/tools`          `PastedTools` → `tools` in the form of chat completions, and types
                                of hosted tools that were `omitted`, because they have no schema
`POST /toolgate/unconstrained`  a body of chat completions → server-sent events: `{"text": …}` for
                                each token, and at the end `{"judgement": judgement.Judgement}`

All require the master key. A virtual key must not fill the backends' caches or read other traffic.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any, TypeVar

import orjson
from fastapi import APIRouter, Depends
from fastapi.routing import APIRoute
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from toolgate_core.errors import InvalidRequest, InvalidTools, ModelNotFound, ToolgateError
from toolgate_core.pointer import request_path
from toolgate_core.tools import Tool

from ...json_values import read_object
from ...litellm_host.auth import require_administrator
from ...litellm_host.routing.router import placements
from ...metrics import exposition
from ...routing.deployments import Deployment
from ...settings import Settings, settings
from ...state import gateway
from . import status, unconstrained
from .reports import BackendSchemas, SchemaReport, read_entries, report_by_verdict
from .tools import UnknownForm, read_document


class ToolsOfModel(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tools: list[Any]
    model: str | None = None
    """The model's name as clients send it; by default all models with Toolgate backends."""


class PastedTools(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tools: Any
    """A tool, a list of tools, a request with `tools`, or the result of MCP's `tools/list`, in the
    form of OpenAI, Anthropic or MCP."""


BATCH = 32
"""Number of grammars per message to the backend. Grammars of requests are loaded in between."""
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
@router.post("/schema")
async def schema_route(request: Request) -> Response:
    body = await _read(request, ToolsOfModel)
    backends = await report_by_backends(_targets(body.model), body.tools, settings())
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
        document = read_document((await _read(request, PastedTools)).tools)
    except UnknownForm as error:
        steps = error.place.split("/")[1:]
        place = request_path(["tools", *(int(each) if each.isdigit() else each for each in steps)])
        raise InvalidTools(f"{place}: {error}", param=place) from error
    return JSONResponse({"tools": document.tools, "omitted": [kind for _, kind in document.hosted]})


@router.post("/unconstrained")
async def unconstrained_route(request: Request) -> Response:
    body = read_object(await request.body())
    events = unconstrained.events(await unconstrained.begin(body))
    return StreamingResponse(events, media_type="text/event-stream")


async def report_by_backends(
    deployments: Sequence[Deployment], entries: Sequence[object], settings: Settings
) -> list[BackendSchemas]:
    """Load `entries`, tools in OpenAI's form, into all deployments, and report the results."""
    tools, invalid = read_entries(entries, settings)

    async def report(deployment: Deployment) -> BackendSchemas:
        reports = [each async for each in _reports(deployment, tools)]
        return BackendSchemas(backend=deployment.url, tools=[*reports, *invalid])

    return list(await asyncio.gather(*map(report, deployments)))


async def _reports(deployment: Deployment, tools: Sequence[Tool]) -> AsyncIterator[SchemaReport]:
    """Load tools into a deployment."""
    for at in range(0, len(tools), BATCH):
        batch = tools[at : at + BATCH]
        try:
            verdicts = await deployment.grammars.prepare(batch)
        except ToolgateError as error:
            failed = {"status": "failed", "code": error.code, "reason": error.message}
            for tool in batch:
                yield SchemaReport.model_validate({"name": tool.name, **failed})
            continue
        for tool in batch:
            yield report_by_verdict(tool, verdicts[tool.hash])


def _json(content: object) -> Response:
    """Return a response whose content has moments, in UTC."""
    return Response(orjson.dumps(content, option=orjson.OPT_UTC_Z), media_type="application/json")


async def _read(request: Request, kind: type[Model]) -> Model:
    """Read the body of a request. Raise InvalidRequest."""
    try:
        return kind.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors()[0]
        param = request_path(first["loc"]) or None
        message = f"Invalid {param or 'body'}: {first['msg']}."
        raise InvalidRequest(message, param=param) from error


def _targets(model: str | None) -> list[Deployment]:
    """Return the Toolgate backends of a model, or of all models, without duplicates. Raise
    ModelNotFound if there is none."""
    all_deployments = map(gateway().deployments.at, placements(model))
    deployments = list(dict.fromkeys(all_deployments))
    if not deployments:
        which = f"named {model!r}" if model else "with a Toolgate backend"
        message = f"There is no model {which}. `GET /toolgate/status` lists the models."
        raise ModelNotFound(message, param="model")
    return deployments
