"""The routes that a virtual key may use: requests to models, and the list of models."""

from __future__ import annotations

import re
from difflib import get_close_matches

from toolgate_core.errors import PermissionDenied

ROUTES = {
    "POST": re.compile(
        r"(?:/v1)?/(?:chat/completions|completions|embeddings|messages|messages/count_tokens)"
        r"|(?:(?:/openai)?/v1)?/responses(?:/(?:input_tokens|compact))?"
    ),
    "GET": re.compile(r"(?:/v1)?/models(?:/.+)?", re.DOTALL),
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
NEAR = 0.8
"""Similarity from which a path is suggested."""
LONGEST = 100
"""Paths of more characters are not compared."""


def nearest(route: str) -> str | None:
    """Return the path of `PATHS` that was probably meant."""
    found = get_close_matches(route, PATHS, n=1, cutoff=NEAR) if len(route) <= LONGEST else []
    return found[0] if found else None


def may_open(method: str, route: str) -> bool:
    """Return whether a virtual key may use the route."""
    allowed = ROUTES.get(method)
    return allowed is not None and allowed.fullmatch(route) is not None


def refusal(method: str, route: str) -> PermissionDenied:
    """Return the error for a virtual key. It names the nearest route, if one is similar."""
    near = nearest(route)
    if near is not None and near != route:
        hint = f"Did you mean {near}?"
    elif near is not None:
        hint = f"Virtual keys may not use it with {method}."
    else:
        hint = f"Virtual keys may use {', '.join(PATHS)}."
    return PermissionDenied(f"This route requires the gateway's master key. {hint}")
