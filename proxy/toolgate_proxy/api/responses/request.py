"""Convert the body of a Responses request to a ChatRequest."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, refuse

from ...request_fields import Fields, invalid_value
from ..shared.chat_request import chat_request
from ..shared.content_format import (
    STRUCTURED_OUTPUTS,
    check_plain_only,
    read_format,
    read_structured_outputs,
)
from ..shared.history import History
from ..shared.hosted_tools import HostedTools
from ..shared.parameter import ParsedParameters, read_parameters
from ..surface import ANY_CLIENT, Client
from .content import check_fields
from .items import PREVIOUS, encrypt, parse_input
from .parameters import BY_NAME, ENCRYPTED, INCLUDES, LOGPROBS
from .state.background import BACKGROUND
from .state.conversation import CONVERSATION, read_conversation
from .tools import read_tool_choice, read_tools

FORMAT = "text.format"
FORMAT_FIELDS = {
    "json_schema": ("type", "name", "schema", "strict", "description"),
    "json_object": ("type",),
    "text": ("type",),
}


def parse_request(
    body: Mapping[str, Any],
    *,
    model: str,
    open_objects: bool = False,
    omit_hosted: bool = True,
    on_invalid: OnInvalid = refuse,
    client: Client = ANY_CLIENT,
    recalled: int = 0,
) -> ChatRequest:
    """Convert a body, as `Surface.parse` describes it."""
    parsed = read_parameters(body, BY_NAME)
    values, seal = parsed.values, client.seal
    _check_options(values)
    _set_logprobs(parsed)
    check_plain_only(values, "tools", "text", STRUCTURED_OUTPUTS)
    history, hosted = History(), HostedTools(omit_hosted)
    given: Any = values.get("input")
    if (conversation := read_conversation(values)) is not None:
        values[CONVERSATION] = conversation
    earlier = PREVIOUS if conversation is None else CONVERSATION
    messages, paths = parse_input(
        given, values.get("instructions"), history, recalled=recalled, earlier=earlier, seal=seal
    )
    if seal is not None and ENCRYPTED in values.get("include", ()):
        parsed.request["sign_reasoning"] = partial(encrypt, seal)
    tools = read_tools(
        values.get("tools", ()), hosted, open_objects=open_objects, on_invalid=on_invalid
    )
    choice = read_tool_choice(values.get("tool_choice"))
    hosted.check_choice(choice, tools.functions)
    return chat_request(
        parsed,
        prefix="resp_",
        model=model,
        messages=messages,
        paths=paths,
        history=history,
        tools=tools.functions,
        hosted=hosted,
        choice=choice,
        content_format=_content_format(values, open_objects=open_objects),
        repeated=values | {"tools": tools.shown, "input": given[recalled:] if recalled else given},
    )


def _check_options(values: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for options of a stream without a stream, a response of the background
    that is not stored, and other additional output than the API has."""
    if "stream_options" in values and not values.get("stream"):
        raise InvalidRequest(
            "'stream_options' requires a stream. Set 'stream' to true.", param="stream_options"
        )
    if values.get(BACKGROUND) and not values.get("store", True):
        raise InvalidRequest(
            "'background' requires a stored response. Remove `store: false`, or 'background'.",
            param=BACKGROUND,
        )
    for at, name in enumerate(values.get("include", ())):
        if not isinstance(name, str) or name not in INCLUDES:
            expected = f"one of {', '.join(INCLUDES)}"
            raise invalid_value(f"include[{at}]", expected, name)


def _set_logprobs(parsed: ParsedParameters) -> None:
    """Turn on logprobs if `include` asks for them. Otherwise `top_logprobs` has no effect."""
    if LOGPROBS in parsed.values.get("include", ()):
        parsed.values["logprobs"] = True
        return
    if parsed.sampling.get("logprob_token_ids"):
        raise InvalidRequest(
            f"'logprob_token_ids' requires logprobs. Add {LOGPROBS!r} to 'include'.",
            param="logprob_token_ids",
        )
    parsed.sampling.pop("logprobs", None)


def _content_format(values: Mapping[str, Any], *, open_objects: bool) -> Tool | None:
    given, structured = values.get("text", {}).get("format"), values.get(STRUCTURED_OUTPUTS)
    if structured is not None:
        if given is not None and given.get("type") != "text":
            raise UnsupportedParameter(
                f"{STRUCTURED_OUTPUTS!r} can't be combined with {FORMAT!r}. Remove one of them.",
                param=STRUCTURED_OUTPUTS,
            )
        return read_structured_outputs(structured, open_objects=open_objects)
    if given is None:
        return None
    fields = Fields(given, FORMAT)
    check_fields(fields, FORMAT_FIELDS.get(fields.text("type") or "", tuple(given)))
    return read_format(given, FORMAT, open_objects=open_objects)
