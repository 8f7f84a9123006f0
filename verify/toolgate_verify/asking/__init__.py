"""Bodies of requests in the three APIs."""

from __future__ import annotations

from dataclasses import replace

from ..exchange import Request
from ..terms import Api
from . import chat, messages, responses
from .ask import Ask

PATHS = {Api.CHAT: "/chat/completions", Api.RESPONSES: "/responses", Api.MESSAGES: "/messages"}
_BODIES = {Api.CHAT: chat.body, Api.RESPONSES: responses.body, Api.MESSAGES: messages.body}


def request(api: Api, ask: Ask, **more: object) -> Request:
    """Return the request in the form of an API, without the model, which the engine adds."""
    return Request(PATHS[api], {**_BODIES[api](ask), **more})


def pair(api: Api, ask: Ask) -> tuple[Request, Request]:
    """Return the same request, not streamed and streamed."""
    return request(api, ask), request(api, replace(ask, stream=True))
