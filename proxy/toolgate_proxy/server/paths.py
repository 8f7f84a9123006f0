"""One line of the gateway's list of paths (../app.py), as a route of Starlette's router."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from ..context import route_path

MATCH = "toolgate.match"
"""Key in the ASGI scope of the match of the path's pattern."""


class Path(BaseRoute):
    """`shown`: the methods, separated by `|`, or `*` for all of them, and one path that `pattern`
    matches. `path_of` returns the path of a request that must match."""

    def __init__(
        self,
        shown: str,
        pattern: re.Pattern[str],
        app: ASGIApp,
        path_of: Callable[[Scope], str] = route_path,
    ) -> None:
        methods, self.path = shown.split(" ", 1)
        self.methods = None if methods == "*" else frozenset(methods.split("|"))
        self.pattern = pattern
        self._app = app
        self._path_of = path_of

    def matches(self, scope: Scope) -> tuple[Match, Any]:
        """Match a request with one of the methods. Others are left to the lines below."""
        if self.methods is not None and scope["method"] not in self.methods:
            return Match.NONE, {}
        found = self.pattern.fullmatch(self._path_of(scope))
        return (Match.NONE, {}) if found is None else (Match.FULL, {MATCH: found})

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


def model_in_path(scope: Scope) -> str:
    """Return the model that the path of a request names, or "" if it names none."""
    found = scope.get(MATCH)
    return "" if found is None else found.groupdict().get("model") or ""


def whole_path(scope: Scope) -> str:
    """Return the path of a request with the root path, if it has one."""
    return str(scope["path"])
