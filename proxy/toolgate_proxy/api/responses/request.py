"""Convert the body of a Responses request to a ChatRequest."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from toolgate_core.chat_request import ChatRequest
from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, refuse

from ...features.all import RESPONSES
from ...features.feature import Asked, Used
from ...request_fields import Fields, invalid_value
from ..shared.chat_request import Salt, as_sent, chat_request
from ..shared.content_format import STRUCTURED_OUTPUTS, read_format, read_structured_outputs
from ..shared.history import History
from ..shared.options import check_stream_options
from ..shared.parameter import ParsedParameters, read_parameters
from ..shared.tools import HostedTools, read_tool_choice
from ..surface import ANY_CLIENT, Client
from .feature import ResponsesFeature, ResponsesWritten
from .items import encrypt, is_trigger, parse_input
from .parameters import BY_NAME, ENCRYPTED, INCLUDES, LOGPROBS
from .tools import ToolReader

BACKGROUND = "background"
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
    salt: Salt = as_sent,
) -> ChatRequest:
    """Convert a body, as `Surface.parse` describes it."""
    parsed = read_parameters(body, BY_NAME)
    values, seal = parsed.values, client.seal
    _check_options(values)
    _set_logprobs(parsed)
    history, hosted = History(), HostedTools(omit_hosted)
    given: Any = values.get("input")
    used = Used(RESPONSES, Asked(client, values, history, recalled=recalled))
    reader = ToolReader(hosted, used, open_objects, on_invalid)
    tools = used.asked.tools = reader.toolset(values.get("tools", ()))
    messages, paths = parse_input(
        given, values.get("instructions"), used, reader.define, recalled=recalled
    )
    is_encrypted = ENCRYPTED in values.get("include", ())
    own = used.fields()
    compaction = own.get("compaction")
    return chat_request(
        parsed,
        salt=salt,
        prefix="resp_",
        model=model,
        messages=messages,
        paths=paths,
        history=history,
        tools=tools,
        gateway_tools=used.runners(),
        pending_calls=tuple(call for feature in used for call in feature.pending()),
        optional_tools=used.optional,
        hosted=hosted,
        constraints=("tools", "text", STRUCTURED_OUTPUTS),
        choice=read_tool_choice(values.get("tool_choice"), partial(_chosen, used=used)),
        content_format=_content_format(values, open_objects=open_objects),
        **own,
        written=ResponsesWritten(
            values,
            reader.shown,
            tuple(used),
            _own_input(given, recalled),
            given if compaction is not None and compaction.pauses else (),
            partial(encrypt, seal) if seal is not None and is_encrypted else None,
        ),
    )


def _own_input(given: Any, recalled: int) -> Any:
    """Return the input without the items of earlier turns, as it is stored."""
    if not isinstance(given, list):
        return given
    return [item for item in given[recalled:] if not is_trigger(item)]


def _check_options(values: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for options of a stream without a stream, a response of the background
    that is not stored, and other additional output than the API has."""
    check_stream_options(values)
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
        return read_structured_outputs(
            structured, open_objects=open_objects, other=given, path=FORMAT
        )
    if given is None:
        return None
    fields = Fields(given, FORMAT)
    fields.check_known(FORMAT_FIELDS.get(fields.text("type") or "", tuple(given)))
    return read_format(given, FORMAT, open_objects=open_objects)


def _chosen(fields: Fields, *, used: Used[ResponsesFeature]) -> str:
    """Return the name of a tool in `tool_choice`. `used`: the features of the request. Raise
    InvalidRequest and UnsupportedParameter."""
    kind = fields.text("type")
    feature = used.of_type(kind)
    if kind is not None and feature is not None and (chosen := feature.chosen(kind)) is not None:
        return chosen
    if kind not in ("function", "custom"):
        path, others = fields.path("type"), [name for each in RESPONSES for name in each.CHOICES]
        raise UnsupportedParameter(
            f"{path!r} must be 'function', 'custom' or one of {', '.join(others)}, but is "
            f"{kind!r}. Other tools can't be called here.",
            param=path,
        )
    name = fields.text("name")
    if not name:
        raise fields.wrong("name", "the name of a tool")
    return name
