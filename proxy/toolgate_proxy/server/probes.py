"""Probes of load balancers, orchestrators and clients. They need no key.

`GET /toolgate/ready`: 200 once the gateway can serve a model, and 503 before. LiteLLM's
`/health/readiness` is answered with the same 503, and by LiteLLM itself afterwards. Their reason
names no models.
`GET /toolgate/ready/{model}`: 200 while a backend of the model responds, otherwise 503; 404 for an
unknown model.
`OPTIONS` of a path that virtual keys may use: its methods.
"""

from __future__ import annotations

import re

from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from toolgate_core.errors import ModelNotFound

from ..context import RequestContext, route_path
from ..keys.access import ROUTES, may_open
from ..litellm_host.proxy_server import has_database
from ..litellm_host.routing.router import model_names, placements, rows_of
from ..state import gateway
from .authorization import LITELLM_READY, READY, READY_MODELS

PATHS = re.compile(rf"{READY}(?:/.*)?|{LITELLM_READY}", re.DOTALL)
METHODS = re.compile("|".join(f"(?:{each.pattern})" for each in ROUTES.values()), re.DOTALL)
RETRY_AFTER = 2
"""Seconds after which a client should try again."""
MAX_NAME = 200
"""Maximum length of a model's name in a response, in characters."""


async def answer(scope: Scope, context: RequestContext) -> Response | None:
    """Answer a request at one of PATHS. Return None for LiteLLM's. Raise ModelNotFound."""
    path = route_path(scope)
    if path.startswith(READY_MODELS):
        return _of_model(path.removeprefix(READY_MODELS))
    models = {name: placements(name) for name in model_names()}
    reason = gateway().readiness.reason(models)
    if reason is not None and (models or not has_database()):
        return _not_ready(reason)
    return JSONResponse({"status": "ready"}) if path == READY else None


async def methods(scope: Scope, _: RequestContext) -> Response:
    """Answer an OPTIONS of one of METHODS that is no preflight request."""
    allowed = (method for method in ROUTES if may_open(method, route_path(scope)))
    return Response(None, 204, {"allow": ", ".join([*allowed, "OPTIONS"])})


def _of_model(name: str) -> Response:
    quoted = repr(name[:MAX_NAME])
    if not rows_of(name):
        raise ModelNotFound(f"The gateway has no model {quoted}.", param="model")
    if not gateway().readiness.serves(placements(name)):
        return _not_ready(f"No backend of the model {quoted} responds.")
    return JSONResponse({"status": "ready"})


def _not_ready(reason: str) -> Response:
    headers = {"retry-after": str(RETRY_AFTER)}
    return JSONResponse({"status": "not ready", "reason": reason}, 503, headers)
