"""`GET /toolgate/ready`: 200 once each Toolgate model has had a backend, and 503 before.

LiteLLM's `/health/readiness` is answered with the same 503, and by LiteLLM itself afterwards. Both
need no key, so they name no models.
"""

from __future__ import annotations

from starlette.responses import JSONResponse, Response
from starlette.types import Scope

from ..litellm_host.deployments.router import model_names, placements
from ..routing.readiness import models_without_backend
from ..state import gateway
from .authorization import route_path

PATH = "/toolgate/ready"
LITELLM_PATH = "/health/readiness"
RETRY_AFTER = 2
"""In seconds."""


def answer(scope: Scope) -> Response | None:
    """The response; None for a request that is no probe, or that LiteLLM answers."""
    path = route_path(scope)
    if scope["method"] not in ("GET", "HEAD") or path not in (PATH, LITELLM_PATH):
        return None
    models = {name: placements(name) for name in model_names()}
    missing = models_without_backend(gateway().deployments, models)
    if missing:
        have = "has" if len(missing) == 1 else "have"
        waits = f"{len(missing)} of {len(models)} models {have} no backend that has responded yet."
        headers = {"retry-after": str(RETRY_AFTER)}
        return JSONResponse({"status": "not ready", "reason": waits}, 503, headers)
    return JSONResponse({"status": "ready"}) if path == PATH else None
