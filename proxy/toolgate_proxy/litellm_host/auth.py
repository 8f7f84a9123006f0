"""Authentication: the key of a request, LiteLLM's description of its holder, and which models and
which of the operator's tools a key may use.

The master key belongs to the administrator and needs no key store. Every other key is a virtual
key, which may call models and list them, and nothing else. `authenticate` is LiteLLM's
`custom_auth` (configured as toolgate_proxy.auth.authenticate); our own route calls `identify`.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping, MutableMapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any

import litellm
from fastapi import Depends
from litellm.constants import LITELLM_PROXY_MASTER_KEY_ALIAS
from litellm.proxy._types import LitellmUserRoles, UserAPIKeyAuth
from litellm.proxy.auth.auth_utils import _check_valid_ip
from litellm.proxy.auth.fallback_budget import is_token_within_budget_for_model
from litellm.proxy.auth.fallback_model_access import is_model_authorized_for_token
from litellm.proxy.auth.user_api_key_auth import user_api_key_auth
from starlette.requests import Request

from toolgate_core.errors import (
    GatewayMisconfigured,
    InvalidKey,
    ModelNotFound,
    PermissionDenied,
    RetiredKey,
    ToolgateError,
)
from toolgate_core.host_probe import optional

from .. import metrics
from ..context import SCOPE, Caller, RequestContext, context_of, route_path
from ..keys.access import key_of, may_open, refusal
from ..keys.key import Key
from ..keys.sync import WRONG_KEY
from ..request_fields import copied
from ..state import gateway
from .context import identity_of
from .database import ALIASES, key_settings
from .errors import own_errors, proxy_exception
from .proxy_server import has_database, litellm_proxy
from .routing.router import Sender, model_names, router, rows_of

KEY_HEADERS = {
    "api_key": "authorization",
    "azure_api_key_header": "api-key",
    "anthropic_api_key_header": "x-api-key",
    "google_ai_studio_api_key_header": "x-goog-api-key",
    "azure_apim_header": "ocp-apim-subscription-key",
    "custom_litellm_key_header": "x-litellm-api-key",
}
"""Arguments of LiteLLM's `user_api_key_auth`, and the headers from which FastAPI fills them."""
ADMINISTRATOR = "default_user_id"
"""LiteLLM's user of the master key."""
KEY_PREFIX = "sk-"
"""Of the keys in LiteLLM's database."""


async def identify(sent: str, address: str) -> Key | None:
    """Return the virtual key `sent`; None for the master key. `address`: the client's IP address.
    Raise InvalidKey, RetiredKey and KeysUnavailable."""
    if is_master_key(sent):
        return None
    here = gateway()
    try:
        if not sent or here.key_sync is None:
            raise InvalidKey(WRONG_KEY)
        await here.key_sync.started()
        return here.key_sync.key_cache.find(sent)
    except RetiredKey:
        raise
    except InvalidKey:
        here.failed_attempts.count(address)
        raise


async def authenticate(request: Request, api_key: str) -> UserAPIKeyAuth:
    """Authenticate a request as LiteLLM's custom_auth. `api_key`: as LiteLLM read it; used only if
    no header has a key, for LiteLLM's routes that take it from the query. Raise ProxyException."""
    try:
        return await _authenticate(request, api_key or "")
    except ToolgateError as error:
        metrics.KEYS_REFUSED.labels(error.code).inc()
        raise proxy_exception(error) from None


async def _authenticate(request: Request, api_key: str) -> UserAPIKeyAuth:
    context = request.scope.get(SCOPE)
    key = context.caller.key if isinstance(context, RequestContext) else None
    if key is None:
        sent = key_of(request.scope.get("headers", ())) or api_key
        key = await identify(sent, address_of(request.scope))
    if key is None:
        return caller(None)
    path = route_path(request.scope)
    if not may_open(request.method, path):
        raise refusal(request.method, path)
    if not isinstance(context, RequestContext):
        if key.limits.any:
            raise GatewayMisconfigured(
                "This API key has limits, which only `toolgate proxy` enforces. Start the gateway "
                "with `toolgate proxy`."
            )
    else:
        context.caller.key = key
    if key.terms.models and not checks_models():
        raise GatewayMisconfigured(
            "This API key is restricted to some models, but LiteLLM does not check models. Set "
            "`custom_auth_run_common_checks: true` in general_settings and "
            "`enable_post_custom_auth_checks: true` in litellm_settings."
        )
    described = caller(key)
    if isinstance(context, RequestContext) and context.fallback and described.models:
        described.models.append(context.fallback)  # the key may use the model that failed
    return described


def address_of(scope: object) -> str:
    """Return the client's address in an ASGI scope, or "?"."""
    client = scope.get("client") if isinstance(scope, Mapping) else None
    return str(client[0]) if client else "?"


def check_address(scope: MutableMapping[str, Any]) -> None:
    """Raise PermissionDenied if the client's address is not among LiteLLM's `allowed_ips`."""
    general = litellm_proxy().general_settings
    if general.get("allowed_ips") is None:
        return
    is_valid, address = _check_valid_ip(
        allowed_ips=general["allowed_ips"],
        request=Request(scope),
        use_x_forwarded_for=general.get("use_x_forwarded_for", False),
    )
    if not is_valid:
        raise PermissionDenied(
            f"The address {address} may not use this gateway. The administrator can add it to "
            "`allowed_ips`."
        )


def is_master_key(sent: str) -> bool:
    master = litellm_proxy().master_key
    if not isinstance(master, str) or not master:
        return False
    return hmac.compare_digest(*(each.encode("utf-8", "surrogatepass") for each in (sent, master)))


def is_key(sent: str) -> bool:
    """Return whether it is the master key, or a virtual key in any state."""
    key_sync = gateway().key_sync
    return is_master_key(sent) or (key_sync is not None and sent in key_sync.key_cache)


def is_ours() -> bool:
    """Return whether LiteLLM's configuration names our `custom_auth`."""
    here = litellm_proxy()
    own_header = here.general_settings.get("litellm_key_header_name")
    return here.user_custom_auth is authenticate and not own_header


def caller(key: Key | None, route: str | None = None) -> UserAPIKeyAuth:
    """Return LiteLLM's description of a key's holder; None: of the master key's. `route`: the
    path."""
    if key is None:
        return UserAPIKeyAuth(
            request_route=route,
            api_key=LITELLM_PROXY_MASTER_KEY_ALIAS,
            user_id=ADMINISTRATOR,
            user_role=LitellmUserRoles.PROXY_ADMIN,
        )
    return UserAPIKeyAuth(
        request_route=route,
        api_key=key.id,
        key_alias=key.alias,
        models=list(key.terms.models),
        user_role=LitellmUserRoles.INTERNAL_USER,
        metadata={"team": key.terms.team, "tags": list(key.terms.tags)},
        object_permission=tool_permission(key),
    )


async def litellm_caller(request: Request, body: Mapping[str, Any]) -> UserAPIKeyAuth:
    """Authenticate with LiteLLM's own authentication or another custom_auth, and note who the
    sender is. Raise ToolgateError."""
    # LiteLLM reads it instead of the body.
    request.scope["parsed_body"] = (tuple(body), copied(body))
    headers = {name: request.headers.get(header) for name, header in KEY_HEADERS.items()}
    with own_errors():
        described = await user_api_key_auth(request, **headers)
    context_of(request.scope).caller.identity = identity_of(described)
    return described


def sender_of(caller: UserAPIKeyAuth) -> Sender:
    """Return the sender as LiteLLM describes it."""
    return Sender(caller.team_id, caller.user_role == LitellmUserRoles.PROXY_ADMIN)


async def model_and_sender(model: str, caller: Caller) -> tuple[str, Sender]:
    """Return the model that a request is for, and its sender. In LiteLLM's database, keys and teams
    have aliases of models. `model`: the name in the request."""
    from litellm.proxy.auth.auth_checks import get_key_object

    if caller.authenticated:
        return model, Sender(is_administrator=caller.key is None)
    sent = caller.sent_key
    if is_master_key(sent):
        return model, Sender(is_administrator=True)
    is_litellms = has_database() and litellm_proxy().user_custom_auth is None
    if not is_litellms or not sent.startswith(KEY_PREFIX):
        return model, Sender()
    try:
        key = await get_key_object(
            hashed_token=UserAPIKeyAuth(api_key=sent).token,
            prisma_client=litellm_proxy().prisma_client,
            user_api_key_cache=litellm_proxy().user_api_key_cache,
        )
    except Exception:  # noqa: BLE001  not a key of the database: `litellm_caller` judges it
        return model, Sender()
    of_router = (await key_settings(key)).get(ALIASES)
    for aliases in (key.team_model_aliases, key.aliases, of_router):
        target = (aliases or {}).get(model, model)
        model = target["model"] if isinstance(target, dict) else target
    return model, sender_of(key)


def model_of(request: Request) -> str:
    """Return the model of a request that `litellm_caller` authenticated. LiteLLM may replace it by
    an alias of the key, or by a model whose budget is not used up."""
    _, body = request.scope["parsed_body"]
    return str(body["model"])


async def check_model(described: UserAPIKeyAuth, named: str) -> None:
    """Raise PermissionDenied if a key may not use the model by its name, a wildcard, or one of
    LiteLLM's access groups. `named`: the model's name in the request."""
    if not await may_call(described, named):
        only = f" Use one of: {', '.join(described.models)}." if described.models else ""
        raise PermissionDenied(f"This API key may not use the model {named!r}.{only}")


async def may_call(described: UserAPIKeyAuth, model: str) -> bool:
    """Return whether a key, and in LiteLLM's database its team and project, may use a model.
    `described`: LiteLLM's description of its holder."""
    options = {"model": model, "valid_token": described, "llm_router": router()}
    return bool(await is_model_authorized_for_token(**options))


async def may_fall_back(described: UserAPIKeyAuth, model: str) -> bool:
    """Return whether a request may fall back to a model. LiteLLM's configuration may require
    permissions for all fallbacks. Its authentication checks budgets and reserves the cost, unless
    the request is for a free model."""
    general = litellm_proxy().general_settings
    free = described.budget_reservation is None and general.get("enforce_fallback_budget", True)
    if free and not await is_token_within_budget_for_model(
        model=model, valid_token=described, llm_router=router()
    ):
        return False
    return not general.get("enforce_fallback_model_access") or await may_call(described, model)


def checks_models() -> bool:
    """Return whether LiteLLM checks which models a key of a custom_auth may use."""
    run = litellm_proxy().general_settings.get("custom_auth_run_common_checks", False)
    return bool(run) and bool(optional(litellm, "enable_post_custom_auth_checks"))


def require_administrator(caller: Annotated[UserAPIKeyAuth, Depends(user_api_key_auth)]) -> None:
    """Require the master key, as a dependency of FastAPI. Raise PermissionDenied."""
    if caller.user_role != LitellmUserRoles.PROXY_ADMIN:
        raise PermissionDenied(
            "This endpoint requires the master key. Send it as `Authorization: Bearer <key>`."
        )


MAX_LISTED = 10
"""Maximum number of models that the error lists."""


async def may_use(key: Key | None, model: str) -> bool:
    """Return whether a key may use a model. `key`: None for the master key."""
    return key is None or await may_call(caller(key), model)


async def usable_models(key: Key | None) -> list[str]:
    """Return the names of the models, without aliases."""
    return [name for name in model_names() if await may_use(key, name)]


async def check_exists(model: str, key: Key | None) -> None:
    """Raise ModelNotFound for a model that the router does not know and the key may not use.

    LiteLLM finds models by more names, so it decides for keys that may use any. For others it
    returns a 403, as if the model existed."""
    if model and not rows_of(model) and not await may_use(key, model):
        raise await model_not_found(model, key)


async def model_not_found(model: str, key: Key | None) -> ModelNotFound:
    """Return the error, which lists the models that the key may use if they are few."""
    return not_among(await usable_models(key), model)


def not_among(names: Sequence[str], model: str) -> ModelNotFound:
    """Return the error, which lists `names` if they are few."""
    meant = get_close_matches(model[:200], names, n=1)
    advice = f" Did you mean {meant[0]!r}?" if meant else ""
    if not names:
        advice = " The key may use no model."
    elif len(names) <= MAX_LISTED:
        advice += f" The models are {', '.join(map(repr, names))}."
    else:
        advice += " `GET /v1/models` lists the models."
    return ModelNotFound(
        f"The model {model!r} does not exist, or this API key may not use it.{advice}",
        param="model",
    )


def tool_permission(key: Key) -> dict[str, Any] | None:
    """Return the permissions of a virtual key in LiteLLM's form; None without any, so that
    LiteLLM's defaults apply."""
    terms = key.terms
    if not (terms.mcp_servers or terms.search_tools):
        return None
    servers: list[str] = []
    tools: dict[str, list[str]] = {}
    for entry in terms.mcp_servers:
        server, _, tool = entry.partition("/")
        if tool:
            tools.setdefault(server, []).append(tool)
        else:
            servers.append(server)
    return {
        "object_permission_id": key.id,
        "mcp_servers": servers if terms.mcp_servers else None,
        "mcp_tool_permissions": {name: tools[name] for name in tools if name not in servers},
        "search_tools": list(terms.search_tools),
    }
