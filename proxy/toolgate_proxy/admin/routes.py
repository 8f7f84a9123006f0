"""HTTP routes for the administrator.

`POST /toolgate/prewarm`  `PrewarmRequest` → `PrewarmResponse`
`GET  /toolgate/status`   `status.Status`: models, their backends, keys and limits
`POST /toolgate/schema`   `PrewarmRequest` → `SchemaResponse`
`GET  /toolgate/metrics`  Prometheus text format

All require the master key. A virtual key must not fill the backends' caches or read other traffic.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from ..litellm_host.administrator import IsAdministrator
from ..litellm_host.deployments.router import placements
from ..routing.deployments import Deployment
from ..settings import settings
from ..state import gateway
from . import schema_report, status
from .exposition import exposition
from .prewarm import BackendReport, prewarm
from .schema_report import BackendSchemas


class PrewarmRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    tools: list[Any]
    model: str | None = None
    """The model's name as clients send it; by default all models with Toolgate backends."""


class PrewarmResponse(BaseModel):
    backends: list[BackendReport]


class SchemaResponse(BaseModel):
    backends: list[BackendSchemas]


router = APIRouter(prefix="/toolgate")


@router.post("/prewarm")
async def prewarm_route(request: Request, administrator: IsAdministrator) -> Response:
    targets = await _tools_of(request, administrator)
    if isinstance(targets, Response):
        return targets
    deployments, tools = targets
    backends = await prewarm(deployments, tools, settings())
    return JSONResponse(PrewarmResponse(backends=backends).model_dump(exclude_none=True))


@router.post("/schema")
async def schema_route(request: Request, administrator: IsAdministrator) -> Response:
    targets = await _tools_of(request, administrator)
    if isinstance(targets, Response):
        return targets
    deployments, tools = targets
    backends = await schema_report.report_by_backends(deployments, tools, settings())
    return JSONResponse(SchemaResponse(backends=backends).model_dump(exclude_none=True))


async def _tools_of(
    request: Request, administrator: bool
) -> Response | tuple[list[Deployment], list[Any]]:
    """Returns the backends and tools of a request, or an error response."""
    if not administrator:
        return _forbidden()
    try:
        body = PrewarmRequest.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors()[0]
        param = ".".join(map(str, first["loc"])) or None
        return _error(400, "invalid_request", f"Invalid {param or 'body'}: {first['msg']}.", param)
    deployments = deployments_of(body.model)
    if not deployments:
        which = f"named {body.model!r}" if body.model else "with a Toolgate backend"
        message = f"There is no model {which}. `GET /toolgate/status` lists the models."
        return _error(404, "model_not_found", message, "model")
    return deployments, body.tools


@router.get("/status")
async def status_route(administrator: IsAdministrator) -> Response:
    if not administrator:
        return _forbidden()
    return JSONResponse(status.status(gateway().deployments).model_dump())


@router.get("/metrics")
async def metrics_route(administrator: IsAdministrator) -> Response:
    if not administrator:
        return _forbidden()
    return Response(exposition(), media_type=CONTENT_TYPE_LATEST)


def deployments_of(model: str | None) -> list[Deployment]:
    """The Toolgate backends of a model, or of all models, without duplicates."""
    all_deployments = map(gateway().deployments.at, placements(model))
    return list({id(each): each for each in all_deployments}.values())


def _forbidden() -> Response:
    message = "This endpoint requires the master key. Send it as `Authorization: Bearer <key>`."
    return _error(403, "permission_denied", message, None)


def _error(status: int, code: str, message: str, param: str | None) -> Response:
    error = {"message": message, "type": "invalid_request_error", "param": param, "code": code}
    return JSONResponse({"error": error}, status)
