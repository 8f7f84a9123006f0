"""`GET /v1/models/{id}`: OpenAI's "retrieve model".

LiteLLM's own handler refuses virtual keys (its list of routes for ordinary keys has the list of
models, but not a single model) and has no ids with slashes. The list of models stays LiteLLM's.
"""

from __future__ import annotations

import re

from toolgate_core.errors import ModelNotFound, PermissionDenied

from ..context import RequestContext
from ..litellm_host.auth import check_model
from ..litellm_host.deployments.router import rows_of

PATH = re.compile(r"(?:/v1)?/models/(?P<id>.+)", re.DOTALL)
CREATED = 1677610602
"""The time that LiteLLM's list of models has for every model."""


def model_of(method: str, path: str) -> str | None:
    """The id in the path of a "retrieve model" request; None for any other request."""
    found = PATH.fullmatch(path) if method == "GET" else None
    return found["id"] if found is not None else None


async def retrieve(model: str, context: RequestContext) -> dict[str, object]:
    """The model, if the request's key may use it. Aliases and names that a wildcard matches count
    as models. Raises ModelNotFound."""
    if not rows_of(model) or not await _may_use(context, model):
        raise ModelNotFound(
            f"The model {model!r} does not exist, or this API key may not use it.", param="model"
        )
    return {"id": model, "object": "model", "created": CREATED, "owned_by": "openai"}


async def _may_use(context: RequestContext, model: str) -> bool:
    if context.key is None:
        return True  # the master key
    try:
        await check_model(context.key, model)
    except PermissionDenied:
        return False
    return True
