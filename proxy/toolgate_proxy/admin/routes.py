"""HTTP routes for the administrator.

`POST /toolgate/prewarm`  `PrewarmRequest` → `PrewarmResponse`
`GET  /toolgate/status`   `status.Status`: models, their backends, keys and limits
`GET  /toolgate/keys`     `keys.KeyList`: virtual keys and their use
`POST /toolgate/schema`   `SchemaRequest` → `SchemaResponse`
`GET  /toolgate/metrics`  Prometheus text format
`POST /toolgate/tools`, `POST /toolgate/unconstrained`: playground/routes.py

All require the master key. A virtual key must not fill the backends' caches or read other traffic.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from toolgate_core.errors import InvalidRequest
from toolgate_core.pointer import request_path
from toolgate_core.wire import MAX_INSTANCES

from ..litellm_host.administrator import IsAdministrator
from ..litellm_host.deployments.router import placements
from ..routing.deployments import Deployment
from ..settings import settings
from ..state import gateway
from . import keys, schema_report, status
from .exposition import exposition
from .instances import Instance
from .playground import routes as playground
from .prewarm import BackendReport, prewarm
from .refusals import forbidden, refusal
from .schema_report import BackendSchemas


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


Body = TypeVar("Body", bound=PrewarmRequest)

router = APIRouter(prefix="/toolgate")
router.include_router(playground.router)


@router.post("/prewarm")
async def prewarm_route(request: Request, administrator: IsAdministrator) -> Response:
    targets = await _targets(request, administrator, PrewarmRequest)
    if isinstance(targets, Response):
        return targets
    deployments, body = targets
    backends = await prewarm(deployments, body.tools, settings())
    return JSONResponse(PrewarmResponse(backends=backends).model_dump(exclude_none=True))


@router.post("/schema")
async def schema_route(request: Request, administrator: IsAdministrator) -> Response:
    targets = await _targets(request, administrator, SchemaRequest)
    if isinstance(targets, Response):
        return targets
    deployments, body = targets
    try:
        backends = await schema_report.report_by_backends(
            deployments, body.tools, settings(), body.instances, gateway().engine.validators
        )
    except InvalidRequest as error:
        return refusal(error.status, error.code, error.message, error.param)
    return JSONResponse(SchemaResponse(backends=backends).model_dump(exclude_none=True))


async def _targets(
    request: Request, administrator: bool, kind: type[Body]
) -> Response | tuple[list[Deployment], Body]:
    """Returns the backends and the body of a request, or an error response."""
    if not administrator:
        return forbidden()
    try:
        body = kind.model_validate_json(await request.body())
    except ValidationError as error:
        first = error.errors()[0]
        param = request_path(first["loc"]) or None
        return refusal(400, "invalid_request", f"Invalid {param or 'body'}: {first['msg']}.", param)
    deployments = deployments_of(body.model)
    if not deployments:
        which = f"named {body.model!r}" if body.model else "with a Toolgate backend"
        message = f"There is no model {which}. `GET /toolgate/status` lists the models."
        return refusal(404, "model_not_found", message, "model")
    return deployments, body


@router.get("/status")
async def status_route(administrator: IsAdministrator) -> Response:
    if not administrator:
        return forbidden()
    return JSONResponse(status.status(gateway().deployments).model_dump(mode="json"))


@router.get("/keys")
async def keys_route(administrator: IsAdministrator) -> Response:
    if not administrator:
        return forbidden()
    return JSONResponse((await keys.list_keys(gateway())).model_dump(mode="json"))


@router.get("/metrics")
async def metrics_route(administrator: IsAdministrator) -> Response:
    if not administrator:
        return forbidden()
    return Response(exposition(), media_type=CONTENT_TYPE_LATEST)


def deployments_of(model: str | None) -> list[Deployment]:
    """The Toolgate backends of a model, or of all models, without duplicates."""
    all_deployments = map(gateway().deployments.at, placements(model))
    return list({id(each): each for each in all_deployments}.values())
