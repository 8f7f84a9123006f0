"""Convert the body of a Responses request to a ChatRequest."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import InvalidRequest
from toolgate_core.tools import Tool

from ...features.all import RESPONSES
from ...features.feature import Asked, Used
from ...request_fields import Fields, invalid_value
from ..shared.content_format import content_format, read_format
from ..shared.parameter import ParsedParameters, read_parameters
from ..shared.tools import read_tool_choice
from ..surface import Reading
from .items import encrypt, is_trigger, parse_input
from .output import ResponsesWriter
from .parameters import BY_NAME, ENCRYPTED, INCLUDES, LOGPROBS
from .tools import ResponsesReader

BACKGROUND = "background"
FORMAT = "text.format"
FORMAT_FIELDS = {
    "json_schema": ("type", "name", "schema", "strict", "description"),
    "json_object": ("type",),
    "text": ("type",),
}


def read(
    body: Mapping[str, Any], reading: Reading, writer: type[ResponsesWriter] = ResponsesWriter
) -> tuple[ChatRequest, ResponsesWriter]:
    """Read a body, as `Surface.read` describes it."""
    parsed = read_parameters(body, BY_NAME)
    values, seal = parsed.values, reading.client.seal
    _check_options(values)
    _set_logprobs(parsed)
    given, recalled = values.get("input"), reading.recalled
    used = Used(RESPONSES, Asked(reading.client, values, recalled=recalled))
    reader = ResponsesReader(used, reading)
    reader.read_tools(values.get("tools", ()))
    conversation = parse_input(
        given, values.get("instructions"), used, reader.define_all, recalled=recalled
    )
    formats = {FORMAT: values.get("text", {}).get("format")}
    choice = read_tool_choice(values.get("tool_choice"), reader.chosen)
    form = content_format(values, formats, _read_format, reading.open_objects)
    request = reader.request(parsed, conversation, choice, form)
    is_encrypted = ENCRYPTED in values.get("include", ())
    return request, writer(
        request,
        values,
        used.asked.shown,
        tuple(used),
        _own_input(given, recalled),
        partial(encrypt, seal) if seal is not None and is_encrypted else None,
        **reader.noted,
    )


def _own_input(given: Any, recalled: int) -> Any:
    """Return the input without the items of earlier turns, as it is stored."""
    if not isinstance(given, list):
        return given
    return [item for item in given[recalled:] if not is_trigger(item)]


def _check_options(values: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for a response of the background that is not stored, and other
    additional output than the API has."""
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


def _read_format(given: Mapping[str, Any], path: str, open_objects: bool) -> Tool | None:
    fields = Fields(given, path)
    fields.check_known(FORMAT_FIELDS.get(fields.text("type") or "", tuple(given)))
    return read_format(given, path, open_objects)
