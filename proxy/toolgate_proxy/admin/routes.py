"""The gateway's own routes, beside LiteLLM's, and what it does as it starts.

`POST /toolgate/prewarm`  `PrewarmRequest` → `PrewarmAnswer`
`GET  /toolgate/status`   `status.Status`: models, their backends, keys and limits
`POST /toolgate/schema`   `PrewarmRequest` → `SchemaAnswer`
`GET  /toolgate/metrics`  Prometheus' text format

All ask for the master key: who may use a model may not fill its backends, or watch its traffic.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from litellm.proxy._types import LitellmUserRoles, UserAPIKeyAuth
from litellm.proxy.auth.user_api_key_auth import user_api_key_auth
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..litellm_host.auth import add_callback
from ..litellm_host.deployments.router import model_names, placements
from ..litellm_host.deployments.selection import SelectionHook
from ..litellm_host.state import selection, ways
from ..routing.deployments import Deployment
from ..routing.health import Health
from ..settings import settings
from ..state import service
from . import schema_report, status
from .exposition import exposition
from .prewarm import BackendReport, prewarm, prewarm_most_used
from .schema_report import BackendSchemas


class PrewarmRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tools: list[Any]
    model: str | None = None
    """As clients name it; every model of ours when it is left out."""


class PrewarmResponse(BaseModel):
    backends: list[BackendReport]


class SchemaResponse(BaseModel):
    backends: list[BackendSchemas]


router = APIRouter(prefix="/toolgate")
Caller = Annotated[UserAPIKeyAuth, Depends(user_api_key_auth)]


@router.post("/prewarm")
async def prewarm_route(request: Request, caller: Caller) -> Response:
    asked = await _tools_of(request, caller)
    if isinstance(asked, Response):
        return asked
    deployments, tools = asked
    backends = await prewarm(deployments, tools, settings())
    return JSONResponse(PrewarmResponse(backends=backends).model_dump(exclude_none=True))


@router.post("/schema")
async def schema_route(request: Request, caller: Caller) -> Response:
    asked = await _tools_of(request, caller)
    if isinstance(asked, Response):
        return asked
    deployments, tools = asked
    backends = await schema_report.ask(deployments, tools, settings())
    return JSONResponse(SchemaResponse(backends=backends).model_dump(exclude_none=True))


async def _tools_of(
    request: Request, caller: UserAPIKeyAuth
) -> Response | tuple[list[Deployment], list[Any]]:
    """The backends and tools that a request names, or the answer that refuses it."""
    if refused := _not_admin(caller):
        return refused
    try:
        body = PrewarmRequest.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors()[0]
        param = ".".join(map(str, first["loc"])) or None
        return _error(400, "invalid_request", f"{param or 'The body'}: {first['msg']}.", param)
    deployments = _deployments(body.model)
    if not deployments:
        return _error(404, "model_not_found", f"No backend serves {body.model!r}.", "model")
    return deployments, body.tools


@router.get("/status")
async def status_route(caller: Caller) -> Response:
    if refused := _not_admin(caller):
        return refused
    return JSONResponse(status.status(service().deployments).model_dump())


@router.get("/metrics")
async def metrics_route(caller: Caller) -> Response:
    if refused := _not_admin(caller):
        return refused
    return Response(exposition(), media_type=CONTENT_TYPE_LATEST)


def attach(app: Any) -> None:
    """Adds the routes, and to the start of LiteLLM's app a frozen heap and the prewarming."""
    app.include_router(router)
    lifespan = app.router.lifespan_context

    @asynccontextmanager
    async def with_ours(app: Any) -> AsyncIterator[Any]:
        async with lifespan(app) as state:
            _freeze_heap()
            work = asyncio.create_task(_prewarm_at_start())
            health = Health(service().deployments, settings(), lambda: placements(None))
            health.start()
            add_callback(SelectionHook(selection(), service().deployments))
            _print_ways()
            await service().limiter.started()
            if (key_sync := service().key_sync) is not None:
                await key_sync.started()
            try:
                yield state
            finally:
                work.cancel()
                await health.aclose()
                await service().aclose()

    app.router.lifespan_context = with_ours


def _print_ways() -> None:
    """Which way requests for each model of ours go."""
    for model in model_names():
        way = ways().of(model)
        if way is not None and way.reason is not None:
            print(f"Model {model}: by LiteLLM's handler, because of {way.reason}.", flush=True)
        elif way is not None:
            print(f"Model {model}: by the gateway's own route.", flush=True)


def _freeze_heap() -> None:
    """A full collection over all that LiteLLM has imported takes 0.3 s and more, in which no stream
    of any client moves on. What is there at the start stays there: it is walked no more."""
    gc.collect()
    gc.freeze()


async def _prewarm_at_start() -> None:
    fleet, limit = service().deployments.fleet, settings().prewarm_limit
    if fleet is not None and limit:
        await fleet.connected()
        await prewarm_most_used(_deployments(None), fleet, limit)


def _deployments(model: str | None) -> list[Deployment]:
    """Ours of that name, each backend once."""
    known = service().deployments
    found = [known.get(place.api_base, place.api_key) for place in placements(model)]
    return list({id(each): each for each in found}.values())


def _not_admin(caller: UserAPIKeyAuth) -> Response | None:
    if caller.user_role == LitellmUserRoles.PROXY_ADMIN:
        return None
    return _error(403, "permission_denied", "This takes the gateway's master key.", None)


def _error(status: int, code: str, message: str, param: str | None) -> Response:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return JSONResponse({"error": error}, status)
