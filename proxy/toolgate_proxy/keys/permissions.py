"""What a virtual key opens: models and the list of them, and nothing else."""

from __future__ import annotations

import re

ROUTES = {
    "POST": re.compile(
        r"(?:/v1)?/(?:chat/completions|completions|embeddings|responses|messages"
        r"|messages/count_tokens)"
    ),
    "GET": re.compile(r"(?:/v1)?/models(?:/[^/]+)?"),
}
"""LiteLLM has hundreds of routes, and each release adds some: a route that is not listed here takes
the master key. Our own route checks keys by itself."""


def may_open(method: str, route: str) -> bool:
    """Whether a virtual key opens the route, for whoever answers it."""
    allowed = ROUTES.get(method)
    return allowed is not None and allowed.fullmatch(route) is not None
