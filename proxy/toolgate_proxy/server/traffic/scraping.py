"""Metrics for a scraper that has TOOLGATE_METRICS_TOKEN. The token opens nothing else."""

from __future__ import annotations

import hmac

from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Scope

from ...admin.routes import exposition

PATHS = frozenset({"/metrics", "/toolgate/metrics"})


def answer(scope: Scope, token: SecretStr | None) -> ASGIApp | None:
    """The metrics, or None if the request is not a scrape with the token. `/toolgate/metrics` is
    then answered for the master key, and `/metrics` by LiteLLM."""
    if token is None or scope["method"] != "GET" or scope["path"] not in PATHS:
        return None
    scheme, _, sent = Headers(scope=scope).get("authorization", "").partition(" ")
    expected = token.get_secret_value()
    if scheme.lower() != "bearer" or not hmac.compare_digest(sent.encode(), expected.encode()):
        return None
    return Response(exposition(), media_type=CONTENT_TYPE_LATEST)
