"""The routes that a virtual key may use: requests to models, and the list of models."""

from __future__ import annotations

import re

ROUTES = {
    "POST": re.compile(
        r"(?:/v1)?/(?:chat/completions|completions|embeddings|messages|messages/count_tokens)"
        r"|(?:(?:/openai)?/v1)?/responses(?:/input_tokens)?"
    ),
    "GET": re.compile(r"(?:/v1)?/models(?:/.+)?", re.DOTALL),
}
"""An allow-list: LiteLLM has hundreds of routes and adds more with each release. All other routes
require the master key."""


def may_open(method: str, route: str) -> bool:
    """Whether a virtual key may use the route."""
    allowed = ROUTES.get(method)
    return allowed is not None and allowed.fullmatch(route) is not None
