"""Readers of answers in the three APIs, whole and streamed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..exchange import Event, Exchange
from ..terms import Api
from . import chat, messages, responses
from .answer import Answer, Unreadable
from .sse import events

_WHOLE: dict[Api, Callable[[Any], Answer]] = {
    Api.CHAT: chat.whole,
    Api.RESPONSES: responses.whole,
    Api.MESSAGES: messages.whole,
}
_STREAM: dict[Api, Callable[[tuple[Event, ...]], Answer]] = {
    Api.CHAT: chat.stream,
    Api.RESPONSES: responses.stream,
    Api.MESSAGES: messages.stream,
}


def read(api: Api, exchange: Exchange) -> Answer:
    """Raise Unreadable."""
    if exchange.request.streamed:
        return _STREAM[api](events(exchange.text))
    if not isinstance(exchange.body, dict):
        raise Unreadable("the response is not a JSON object")
    return _WHOLE[api](exchange.body)
