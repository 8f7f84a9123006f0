"""The API surface for OpenAI's chat completions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import orjson

from toolgate_core.errors import ToolgateError

from ...features.all import CHAT
from ...features.feature import ActiveFeatures, FeatureInput
from ...request.chat_request import ChatRequest
from ...request_fields import Fields
from ..shared.content_format import RESPONSE_FORMAT, content_format, read_response_format
from ..shared.output import COMMENT, data_event
from ..shared.parameter import CHAT_TABLE, read_parameters, unknown
from ..surface import Reading, Surface
from .messages import parse_messages
from .output import ChatWriter
from .tools import ChatReader, choice_of

NOT_IN_EXTRA_BODY = ("model", "messages", "stream", "extra_body")


def _with_extra_body(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body with the fields of `extra_body`, which have precedence."""
    if "extra_body" not in body:
        return body
    extra = Fields(body).mapping("extra_body") or {}
    for name in NOT_IN_EXTRA_BODY:
        if name in extra:
            raise unknown(f"extra_body.{name}")
    return {name: value for name, value in body.items() if name != "extra_body"} | extra


class ChatCompletions(Surface):
    name = "chat completions"
    path = re.compile(
        r"(?:/v1)?(?:/chat/completions"
        r"|(?:/openai/deployments|/engines)/(?P<model>.+)/chat/completions)"
    )
    """The paths that LiteLLM accepts. Azure and OpenAI's older API have the model in the path."""
    call_type = "acompletion"
    parameters = frozenset(CHAT_TABLE)
    keep_alive = COMMENT

    def read(self, body: Mapping[str, Any], reading: Reading) -> tuple[ChatRequest, ChatWriter]:
        parsed = read_parameters(_with_extra_body(body), CHAT_TABLE)
        values, given = parsed.values, parsed.request
        choice = choice_of(values.get("tool_choice"))
        features = ActiveFeatures(CHAT, FeatureInput(reading.client, values, choice=choice))
        reader = ChatReader(features, reading)
        reader.read_tools(values.get("tools", ()))
        conversation = parse_messages(values.get("messages"), features, reader.define)
        if values.get("reasoning", {}).get("exclude"):
            given.setdefault("include_reasoning", False)
        formats = {RESPONSE_FORMAT: values.get(RESPONSE_FORMAT)}
        form = content_format(values, formats, read_response_format, reading.open_objects)
        request = reader.request(parsed, conversation, choice, form)
        return request, ChatWriter(request, tuple(features), **parsed.writer, **reader.noted)

    def with_search(self, body: Mapping[str, Any], listed: int) -> Mapping[str, Any]:
        for feature in CHAT:
            body = feature.prepared(body, listed)
        return body

    def error(self, error: ToolgateError, request_id: str | None = None) -> dict[str, Any]:
        return error.body()

    def error_event(self, shown: Mapping[str, Any]) -> bytes:
        return data_event(orjson.dumps(shown))
