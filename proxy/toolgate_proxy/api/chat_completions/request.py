"""Convert the body of a chat completion request to a ChatRequest."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, refuse

from ...request_fields import Fields
from ..shared.content_format import (
    STRUCTURED_OUTPUTS,
    check_plain_only,
    read_response_format,
    read_structured_outputs,
)
from ..shared.history import History
from ..shared.hosted_tools import HostedTools
from ..shared.messages import has_images, text_of_last
from ..shared.options import call_tokens, on_budget, receipt, repetition_guard
from ..shared.parameter import ParsedParameters, read_parameters
from ..shared.reasoning import reasoning_budget, reasoning_mode
from ..shared.sampling import make_sampling
from ..shared.template import template_kwargs
from ..shared.unknown import unknown
from .functions import is_legacy, requested_tool_choice, requested_tools
from .messages import parse_messages
from .parameters import BY_NAME

OF_REASONING = {
    "effort": "reasoning_effort",
    "max_tokens": "reasoning_budget",
    "enabled": "enable_thinking",
}
"""By member of OpenRouter's `reasoning`: the parameter that it sets."""
NOT_IN_EXTRA_BODY = ("model", "messages", "stream", "extra_body")


def parse_request(
    body: Mapping[str, Any],
    *,
    model: str,
    open_objects: bool = False,
    omit_hosted: bool = True,
    on_invalid: OnInvalid = refuse,
) -> ChatRequest:
    """Convert a body. `model` is the backend's name of the model. `omit_hosted`: leave hosted tools
    out instead of refusing them. `on_invalid` gets the errors of tools.

    Raises InvalidRequest, InvalidTools or UnsupportedParameter, whose `param` is the path of the
    invalid field.
    """
    parsed = read_parameters(_merged(body), BY_NAME)
    values, request = parsed.values, parsed.request
    _spread(values, request)
    legacy = is_legacy(values)
    history, hosted = History(), HostedTools(omit_hosted)
    messages, paths = parse_messages(values.get("messages"), history)
    check_plain_only(values, "tools", "functions", "response_format", STRUCTURED_OUTPUTS)
    if legacy:
        request["parallel_tool_calls"] = False
    if "request_id" in values:
        request["answer_id"] = f"chatcmpl-{values['request_id']}"
    if "stream_options" in values:
        request |= _stream_options(values["stream_options"], parsed)
    if "max_completion_tokens" in values:
        parsed.sampling["max_tokens"] = values["max_completion_tokens"]
    if parsed.tokenizing:
        request["tokenizing"] = wire.Tokenizing(**parsed.tokenizing)
    tools = requested_tools(values, hosted, open_objects=open_objects, on_invalid=on_invalid)
    choice = requested_tool_choice(values)
    hosted.check_choice(choice, tools)
    mode = reasoning_mode(values)
    return ChatRequest(
        request_id=f"chatcmpl-{secrets.token_hex(16)}",
        model=model,
        messages=messages,
        images=has_images(messages),
        message_paths=paths,
        history_changes=history.changes,
        tools=tools,
        omitted_tools=hosted.types,
        tool_choice=choice,
        reasoning=mode,
        template_kwargs=template_kwargs(values, mode),
        sampling=make_sampling(parsed, stream=request.get("stream", False)),
        reasoning_budget=reasoning_budget(values),
        on_budget=on_budget(values),
        call_tokens=call_tokens(values),
        repetition_guard=repetition_guard(values),
        receipt=receipt(values),
        content_format=_content_format(values, open_objects=open_objects),
        echo=text_of_last(messages) if values.get("echo") else "",
        legacy_functions=legacy,
        **request,
    )


def _spread(values: dict[str, Any], request: dict[str, Any]) -> None:
    """Adds what OpenRouter's `reasoning` sets, where no parameter of its own sets it."""
    given = values.get("reasoning", {})
    for member, name in OF_REASONING.items():
        if member in given:
            values.setdefault(name, given[member])
    if given.get("exclude"):
        request.setdefault("include_reasoning", False)


def _merged(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body with the fields of `extra_body`, which have precedence."""
    if "extra_body" not in body:
        return body
    extra = Fields(body).mapping("extra_body") or {}
    for name in NOT_IN_EXTRA_BODY:
        if name in extra:
            raise unknown(f"extra_body.{name}")
    return {name: value for name, value in body.items() if name != "extra_body"} | extra


def _stream_options(options: Mapping[str, bool], parsed: ParsedParameters) -> dict[str, bool]:
    if not parsed.request.get("stream"):
        raise InvalidRequest(
            "'stream_options' requires a stream. Set 'stream' to true.", param="stream_options"
        )
    return {
        "include_usage": options.get("include_usage", False),
        "continuous_usage": options.get("continuous_usage_stats", False),
        "call_done": options.get("toolgate_call_done", False),
        "trace": options.get("toolgate_trace", False),
    }


def _content_format(values: Mapping[str, Any], *, open_objects: bool) -> Tool | None:
    given, structured = values.get("response_format"), values.get(STRUCTURED_OUTPUTS)
    if structured is not None:
        if given is not None and given.get("type") != "text":
            raise UnsupportedParameter(
                f"{STRUCTURED_OUTPUTS!r} can't be combined with 'response_format'. Remove one of "
                "them.",
                param=STRUCTURED_OUTPUTS,
            )
        return read_structured_outputs(structured, open_objects=open_objects)
    if given is None:
        return None
    return read_response_format(given, open_objects=open_objects)
