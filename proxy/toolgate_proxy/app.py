"""The gateway's paths, in one list (ops/admin/routes.py adds some). All others are LiteLLM's.

A request goes to the first line that has its method and path, otherwise to LiteLLM's app behind the
checks of server/forwarding.py. An error before the response begins becomes the response here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from toolgate_core.errors import ToolgateError

from .api.surfaces import COMPACT, COMPLETIONS, MESSAGES, RESPONSES, surface_of
from .context import MATCH, RequestContext, context_of, route_path
from .ops import page
from .pipeline import Pipeline
from .server import absent_routes, model_retrieval, probes, stored_responses
from .server.connection import Reply
from .server.forwarding import Forwarding


@dataclass(frozen=True)
class Path:
    """A line of the list. `shown`: the methods, separated by `|`, or `*` for all of them, and one
    path that `pattern` matches."""

    shown: str
    pattern: re.Pattern[str]
    app: ASGIApp
    path_of: Callable[[Scope], str] = route_path
    """Returns the path of a request that must match."""

    @cached_property
    def _methods(self) -> Sequence[str]:
        return self.shown.partition(" ")[0].split("|")

    def match(self, scope: Scope) -> re.Match[str] | None:
        """Match a request with one of the methods. Others are left to the lines below."""
        if self._methods != ["*"] and scope["method"] not in self._methods:
            return None
        return self.pattern.fullmatch(self.path_of(scope))


def paths(litellm: Forwarding) -> list[Path]:
    """Return the list. A line has the methods and one path, the pattern of all its paths, and the
    app that answers. `unless`: LiteLLM answers where the function returns None."""
    answered = litellm.unless
    return [
        Path("GET|HEAD /", page.PATHS, answered(_page)),
        Path("OPTIONS /v1/models", probes.METHODS, answered(probes.methods)),
        _api("POST /v1/chat/completions", Pipeline(COMPLETIONS, litellm)),
        _api("POST /v1/responses", Pipeline(RESPONSES, litellm)),
        _api("POST /v1/responses/input_tokens", Pipeline(RESPONSES, litellm, RESPONSES.counting)),
        _api("POST /v1/responses/compact", Pipeline(COMPACT, litellm)),
        _api("POST /v1/messages", Pipeline(MESSAGES, litellm)),
        _api("POST /v1/messages/count_tokens", Pipeline(MESSAGES, litellm, MESSAGES.counting)),
        Path("* /v1/responses/resp_0", stored_responses.PATHS, answered(stored_responses.answer)),
        Path("* /v1/messages/batches", absent_routes.BATCHES, answered(absent_routes.batches)),
        Path("* /key/info", absent_routes.DATABASE, answered(absent_routes.without_database)),
        Path("GET|HEAD /toolgate/ready", probes.PATHS, answered(probes.answer)),
        Path(
            "GET /v1/models",
            model_retrieval.PATH,
            answered(partial(model_retrieval.answer, litellm)),
        ),
        Path(
            "GET /v1/model/info",
            model_retrieval.INFO,
            answered(partial(model_retrieval.info, litellm)),
        ),
    ]


class Gateway:
    """ASGI middleware. LiteLLM's own middleware that must see our responses runs outside it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._litellm = Forwarding(app)
        self._paths = paths(self._litellm)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            app = absent_routes.refuse_upgrade if absent_routes.is_upgrade(scope) else self._app
            await app(scope, receive, send)
            return
        context = context_of(scope)
        context.form = surface_of(scope["path"], Headers(scope=scope))
        try:
            for path in self._paths:
                if (match := path.match(scope)) is not None:
                    scope[MATCH] = match
                    await path.app(scope, receive, send)
                    return
            await self._litellm(scope, receive, send)
        except ToolgateError as error:
            # With its traceback, it and the body would stay in memory until a collection.
            await Reply(send, context).fail(error.with_traceback(None))


def _api(pattern: str, pipeline: Pipeline) -> Path:
    """Return the line of an operation with a model."""
    operation = pipeline.counting or pipeline.surface
    return Path(pattern, operation.path, pipeline, lambda scope: str(scope["path"]))


async def _page(scope: Scope, _: RequestContext) -> Response | None:
    return await page.answer(scope, scope[MATCH][0])
