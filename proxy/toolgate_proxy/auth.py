"""Who sends a request: `general_settings.custom_auth` in LiteLLM's configuration names
`authenticate`, and our own route calls `identify`.

The master key is the administrator's and is recognised without any store. Any other key is a
virtual key: it opens models and the list of them, and nothing else.
"""

from __future__ import annotations

from litellm.proxy._types import UserAPIKeyAuth
from starlette.requests import Request

from toolgate_core.errors import (
    GatewayMisconfigured,
    InvalidKey,
    PermissionDenied,
    RetiredKey,
    ToolgateError,
)

from . import metrics
from .context import SCOPE, RequestContext
from .keys.key import Key
from .keys.permissions import may_open
from .keys.ring import WRONG
from .litellm_host import auth as host
from .litellm_host.errors import proxy_exception
from .litellm_host.limit_hook import hook
from .service import Service, service


async def identify(sent: str, address: str) -> Key | None:
    """The virtual key that was sent; None for the master key. `address`: the client's. Raises
    InvalidKey, RetiredKey and KeysUnavailable."""
    if host.is_master_key(sent):
        return None
    here = service()
    try:
        return await _find(here, sent)
    except RetiredKey:
        raise
    except InvalidKey:
        here.guesses.count(address)
        raise


async def authenticate(request: Request, api_key: str) -> UserAPIKeyAuth:
    """LiteLLM's custom_auth. Raises ProxyException."""
    host.add_callback(hook)
    try:
        return await _authenticate(request, api_key or "")
    except ToolgateError as error:
        metrics.KEYS_REFUSED.labels(error.code).inc()
        raise proxy_exception(error) from None


async def _authenticate(request: Request, sent: str) -> UserAPIKeyAuth:
    context = request.scope.get(SCOPE)
    key = context.key if isinstance(context, RequestContext) else None
    if key is None:
        key = await identify(sent, address_of(request.scope))
    if key is None:
        return host.administrator()
    if not may_open(request.method, host.route_of(request)):
        raise PermissionDenied("This route requires the gateway's master key.")
    if not isinstance(context, RequestContext):
        if key.limits.any:
            raise GatewayMisconfigured(
                "This key has limits, which only `toolgate proxy` enforces: start the gateway by "
                "it."
            )
    else:
        context.key = key
    if key.terms.models and not host.checks_models():
        raise GatewayMisconfigured(
            "This key may use some models only, which takes `custom_auth_run_common_checks: true` "
            "in general_settings and `enable_post_custom_auth_checks: true` in litellm_settings."
        )
    return host.caller(key)


def address_of(scope: object) -> str:
    """The client's address in an ASGI scope, or "?"."""
    client = scope.get("client") if hasattr(scope, "get") else None
    return str(client[0]) if client else "?"


async def _find(here: Service, sent: str) -> Key:
    """Raises InvalidKey and KeysUnavailable."""
    if not sent or here.watch is None:
        raise InvalidKey(WRONG)
    await here.watch.started()
    return here.watch.ring.find(sent)
