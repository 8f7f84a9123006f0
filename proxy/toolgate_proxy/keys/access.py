"""The API key of a request: how its headers have it, and what a virtual key may open.

This is the only parser of API keys: the own route, the checks before LiteLLM and our `custom_auth`
get the same key from a request. It accepts the headers and schemes that LiteLLM accepts, in its
order (`get_api_key` in litellm/proxy/auth/user_api_key_auth.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from toolgate_core.errors import InvalidKey, PermissionDenied

from ..request_fields import nearest

KEY_HEADERS = (
    b"x-litellm-api-key",
    b"authorization",
    b"api-key",
    b"x-api-key",
    b"x-goog-api-key",
    b"ocp-apim-subscription-key",
)
"""The first of these headers that a request has decides. The others may be credentials of the
client for MCP servers or for providers."""
SCHEME = re.compile(rb"\s*(?:bearer|basic)\s+", re.IGNORECASE)
"""HTTP schemes are case-insensitive (RFC 9110, section 11.1). LiteLLM takes a key after `Basic`
as it is."""
AWS_SIGNATURE = re.compile(
    rb"\s*AWS4-HMAC-SHA256\s.*?Credential=(?:bearer\s+)?([^/\s,]+)", re.IGNORECASE
)
"""Clients of Amazon Bedrock send the key as the credential of a signature."""

Header = tuple[bytes, bytes]


def key_of(headers: Iterable[Header]) -> str | None:
    """Return the API key in the headers of an ASGI scope. Raise InvalidKey if a header is there
    several times with different keys."""
    keys: dict[bytes, str] = {}
    for name, value in headers:
        if name in KEY_HEADERS and (key := key_in(value)) and keys.setdefault(name, key) != key:
            raise InvalidKey(
                f"The request has several {name.decode()!r} headers with different keys. Send one."
            )
    return next((keys[name] for name in KEY_HEADERS if name in keys), None)


def key_in(value: bytes) -> str:
    """Return the API key in the value of a header, without its scheme."""
    if signature := AWS_SIGNATURE.match(value):
        return signature[1].decode("latin-1")
    return SCHEME.sub(b"", value, count=1).strip().decode("latin-1")


ROUTES = {
    "POST": re.compile(
        r"(?:/v1)?/(?:chat/completions|completions|embeddings|messages|messages/count_tokens)"
        r"|(?:(?:/openai)?/v1)?/responses(?:/(?:input_tokens|compact))?"
    ),
    "GET": re.compile(r"(?:/v1)?/models(?:/.+)?|(?:/v1)?/model/info|/model_group/info", re.DOTALL),
}
"""An allow-list: LiteLLM has hundreds of routes and adds more with each release. All other routes
require the master key."""
PATHS = (
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/messages",
    "/v1/messages/count_tokens",
    "/v1/completions",
    "/v1/embeddings",
    "/v1/models",
)
"""Examples of them, for messages."""


def nearest_path(route: str) -> str:
    """Return the path of `PATHS` that was probably meant; "" if none is similar."""
    return nearest(route, PATHS, 0.8)


def may_open(method: str, route: str) -> bool:
    """Return whether a virtual key may use the route."""
    allowed = ROUTES.get(method)
    return allowed is not None and allowed.fullmatch(route) is not None


def refusal(method: str, route: str) -> PermissionDenied:
    """Return the error for a virtual key. It names the nearest route, if one is similar."""
    near = nearest_path(route)
    if near and near != route:
        hint = f"Did you mean {near}?"
    elif near:
        hint = f"Virtual keys may not use it with {method}."
    else:
        hint = f"Virtual keys may use {', '.join(PATHS)}."
    return PermissionDenied(f"This route requires the gateway's master key. {hint}")
