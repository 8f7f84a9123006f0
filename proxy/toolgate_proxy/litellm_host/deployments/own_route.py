"""Our own route for a request, which is found before LiteLLM checks its key."""

from __future__ import annotations

from starlette.types import Scope

from ...context import context_of
from ...keys.header import key_of
from .. import auth
from .key_settings import ALIASES, key_settings
from .model_route import ModelRoute, model_routes
from .router import Asker


def own_route(model: str, asker: Asker) -> ModelRoute | None:
    """Return how our own route serves a model, or None if requests take LiteLLM's route."""
    route = model_routes().find(model, asker)
    return None if route is None or route.reason is not None else route


def litellms_reason(model: str, asker: Asker | None = None) -> str | None:
    """Return why requests for a model with a Toolgate deployment take LiteLLM's route; None: they
    take our own. `asker`: None for the deployments of all teams."""
    route = model_routes().find(model, asker)
    return "it also has deployments of another provider" if route is None else route.reason


async def asked(scope: Scope, model: str) -> tuple[str, Asker]:
    """Return the model that a request is for, and its sender. In LiteLLM's database, keys and teams
    have aliases of models."""
    from litellm.proxy import proxy_server
    from litellm.proxy.auth.auth_checks import get_key_object
    from litellm.proxy.utils import hash_token

    if (caller := context_of(scope).caller).authenticated:
        return model, Asker(is_administrator=caller.key is None)
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
    of_router = (await key_settings(key)).get(ALIASES)
    for aliases in (key.team_model_aliases, key.aliases, of_router):
        target = (aliases or {}).get(model, model)
        model = target["model"] if isinstance(target, dict) else target
    return model, auth.asker(key)
