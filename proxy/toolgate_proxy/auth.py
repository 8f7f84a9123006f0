"""Who is asking: `general_settings.custom_auth` in LiteLLM's configuration names `authenticate`.

The master key is the administrator's and is told apart without any store. Any other key is a
virtual one: it reaches models and the list of them, and nothing else.
"""

from __future__ import annotations

import re

from litellm.proxy._types import LitellmUserRoles, UserAPIKeyAuth
from starlette.requests import Request

from toolgate_core.errors import (
    GatewayMisconfigured,
    InvalidKey,
    PermissionDenied,
    RetiredKey,
    ToolgateError,
)

from . import meter as meters
from . import metrics
from .keys.key import Key
from .keys.ring import WRONG
from .litellm_host import auth as host
from .litellm_host.limit_hook import hook
from .service import Service, service

ROUTES = {
    "POST": re.compile(
        r"(?:/v1)?/(?:chat/completions|completions|embeddings|responses|messages"
        r"|messages/count_tokens)"
    ),
    "GET": re.compile(r"(?:/v1)?/models(?:/[^/]+)?"),
}
"""All that a virtual key opens. LiteLLM has hundreds of routes, and each release adds some: what is
not listed here takes the master key."""


def may_open(method: str, route: str) -> bool:
    """Whether a virtual key opens it."""
    allowed = ROUTES.get(method)
    return allowed is not None and allowed.fullmatch(route) is not None


async def authenticate(request: Request, api_key: str) -> UserAPIKeyAuth:
    try:
        return await _authenticate(request, api_key or "")
    except ToolgateError as error:
        metrics.KEYS_REFUSED.labels(error.code).inc()
        raise host.proxy_exception(error) from None


async def _authenticate(request: Request, sent: str) -> UserAPIKeyAuth:
    host.add_callback(hook)
    if host.is_master_key(sent):
        return host.admin()
    here = service()
    try:
        key = await _find(here, sent)
    except RetiredKey:
        raise
    except InvalidKey:
        here.guesses.count(request.client.host if request.client else "?")
        raise
    _check_route(request)
    meter = meters.current()
    if meter is None and key.limits.any:
        raise GatewayMisconfigured(
            "This key has limits, which only `toolgate proxy` enforces: start the gateway by it."
        )
    if key.terms.models and not host.checks_models():
        raise GatewayMisconfigured(
            "This key may use some models only, which takes `custom_auth_run_common_checks: true` "
            "in general_settings and `enable_post_custom_auth_checks: true` in litellm_settings."
        )
    if meter is not None:
        meter.key = key
    return UserAPIKeyAuth(
        api_key=key.id,
        key_alias=key.alias,
        models=list(key.terms.models),
        user_role=LitellmUserRoles.INTERNAL_USER,
        metadata={"team": key.terms.team, "tags": list(key.terms.tags)},
    )


async def _find(here: Service, sent: str) -> Key:
    """Raises InvalidKey and KeysUnavailable."""
    if not sent or here.watch is None:
        raise InvalidKey(WRONG)
    await here.watch.started()
    return here.watch.ring.find(sent)


def _check_route(request: Request) -> None:
    if not may_open(request.method, host.route_of(request)):
        raise PermissionDenied("This takes the gateway's master key.")
