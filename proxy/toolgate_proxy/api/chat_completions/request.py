"""Convert the body of a chat completion request to a ChatRequest."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from toolgate_core.chat_request import ChatRequest
from toolgate_core.tools import OnInvalid, Tool, refuse

from ...features.all import CHAT
from ...features.feature import Asked, Used
from ...request_fields import Fields
from ..shared.chat_request import Salt, as_sent, chat_request
from ..shared.content_format import (
    STRUCTURED_OUTPUTS,
    read_response_format,
    read_structured_outputs,
)
from ..shared.history import History
from ..shared.options import check_stream_options
from ..shared.parameter import read_parameters, unknown
from ..shared.tools import HostedTools
from ..surface import ANY_CLIENT, Client
from .feature import ChatWritten
from .messages import parse_messages
from .parameters import BY_NAME
from .tools import choice_of, define, is_legacy, read_definitions

NOT_IN_EXTRA_BODY = ("model", "messages", "stream", "extra_body")


def parse_request(
    body: Mapping[str, Any],
    *,
    model: str,
    open_objects: bool = False,
    omit_hosted: bool = True,
    on_invalid: OnInvalid = refuse,
    client: Client = ANY_CLIENT,
    recalled: int = 0,
    salt: Salt = as_sent,
) -> ChatRequest:
    """Convert a body, as `Surface.parse` describes it. This API stores nothing."""
    parsed = read_parameters(_merged(body), BY_NAME)
    values = parsed.values
    legacy = is_legacy(values)
    history, hosted = History(), HostedTools(omit_hosted)
    choice = choice_of(values)
    used = Used(CHAT, Asked(client, values, history, choice))
    tools = used.asked.tools = read_definitions(
        values, hosted, used, open_objects=open_objects, on_invalid=on_invalid
    )
    defined = partial(define, open_objects=open_objects, on_invalid=on_invalid)
    messages, paths = parse_messages(values.get("messages"), used, defined)
    check_stream_options(values)
    if legacy:
        parsed.request["parallel_tool_calls"] = False
    if values.get("reasoning", {}).get("exclude"):
        parsed.request.setdefault("include_reasoning", False)
    return chat_request(
        parsed,
        salt=salt,
        prefix="chatcmpl-",
        model=model,
        messages=messages,
        paths=paths,
        history=history,
        tools=tools,
        gateway_tools=used.runners(),
        hidden_tools=frozenset(name for feature in used for name in feature.hidden),
        optional_tools=used.optional,
        hosted=hosted,
        choice=choice,
        constraints=("tools", "functions", "response_format", STRUCTURED_OUTPUTS),
        content_format=_content_format(values, open_objects=open_objects),
        written=ChatWritten(
            tuple(used),
            legacy,
            parsed.request.pop("continuous_usage", False),
            parsed.request.pop("call_done", False),
        ),
    )


def _merged(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body with the fields of `extra_body`, which have precedence."""
    if "extra_body" not in body:
        return body
    extra = Fields(body).mapping("extra_body") or {}
    for name in NOT_IN_EXTRA_BODY:
        if name in extra:
            raise unknown(f"extra_body.{name}")
    return {name: value for name, value in body.items() if name != "extra_body"} | extra


def _content_format(values: Mapping[str, Any], *, open_objects: bool) -> Tool | None:
    given, structured = values.get("response_format"), values.get(STRUCTURED_OUTPUTS)
    if structured is not None:
        return read_structured_outputs(structured, open_objects=open_objects, other=given)
    if given is None:
        return None
    return read_response_format(given, open_objects=open_objects)
