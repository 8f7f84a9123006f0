"""The routes of LiteLLM's app, as the installed release has them."""

import re

PARAMETER = re.compile(r"\{[^}]*\}")
METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})


def http_routes():
    """Method and path of every HTTP route, with `x` for parameters. A mount and a feature that is
    loaded on the first request count as a route that is read."""
    from litellm.proxy._lazy_features import LAZY_FEATURES
    from litellm.proxy.proxy_server import app

    found = {
        (method, route.path)
        for route in app.routes
        for method in METHODS & (getattr(route, "methods", None) or {"GET"})
        if hasattr(route, "path")
    }
    for feature in LAZY_FEATURES:
        paths = [*feature.path_prefixes, *(f"/x{each}" for each in feature.path_suffixes)]
        found |= {("GET", path) for path in paths} | {("POST", path) for path in paths}
    return sorted({(method, PARAMETER.sub("x", path) or "/") for method, path in found})


def routes_without_key():
    """The routes of `http_routes` whose handlers do not depend on LiteLLM's authentication."""
    from litellm.proxy.proxy_server import app

    from toolgate_proxy.litellm_host.asgi import checks_key

    return sorted(
        (method, PARAMETER.sub("x", route.path) or "/")
        for route in app.routes
        for method in METHODS & (getattr(route, "methods", None) or {"GET"})
        if hasattr(route, "path")
        if not checks_key(route)
    )


def websocket_paths():
    from litellm.proxy.proxy_server import app

    sockets = [route for route in app.routes if "WebSocket" in type(route).__name__]
    return sorted(PARAMETER.sub("x", route.path) for route in sockets)
