"""Our own route for a request, which is found before LiteLLM checks its key."""

from __future__ import annotations

from starlette.types import Scope

from ...keys.header import key_of
from .. import auth
from ..state import model_routes
from .model_route import ModelRoute
from .router import Asker


def own_route(model: str, asker: Asker) -> ModelRoute | None:
    """Return how our own route serves a model, or None if requests take LiteLLM's route."""
    route = model_routes().find(model, asker)
    return None if route is None or route.reason is not None else route


async def asked(scope: Scope, model: str) -> tuple[str, Asker]:
    """Return the model that a request is for, and its sender. In LiteLLM's database, keys and teams
    have aliases of models."""
    from litellm.proxy import proxy_server
    from litellm.proxy.auth.auth_checks import get_key_object
    from litellm.proxy.utils import hash_token

    sent = key_of(scope["headers"]) or ""
    if auth.is_master_key(sent):
        return model, Asker(is_administrator=True)
    if not auth.has_database() or proxy_server.user_custom_auth is not None:
        return model, Asker()
    try:
        key = await get_key_object(
            hashed_token=hash_token(sent),
            prisma_client=proxy_server.prisma_client,
            user_api_key_cache=proxy_server.user_api_key_cache,
        )
    except Exception:  # noqa: BLE001  not a key of the database: `litellm_caller` judges it
        return model, Asker()
    for aliases in (key.team_model_aliases, key.aliases):
        model = (aliases or {}).get(model, model)
    return model, auth.asker(key)
