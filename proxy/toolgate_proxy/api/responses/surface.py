"""The API surface for OpenAI's Responses API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from toolgate_core.errors import InvalidRequest, ToolgateError, UnsupportedParameter

from ...features.all import RESPONSES
from ...features.feature import ActiveFeatures, FeatureInput
from ...request.chat_request import ChatRequest
from ...request_fields import Fields, invalid_value
from ..shared.content_format import RESPONSE_FORMAT, content_format, read_text_format
from ..shared.output import COMMENT
from ..shared.parameter import RESPONSES_TABLE, ParsedParameters, over_defaults, read_parameters
from ..surface import Client, Counting, Reading, Surface
from .items import ENCRYPTED, PREVIOUS, TRIGGER, encrypt, is_trigger, parse_input
from .output import CompactWriter, ResponsesWriter, failed_events, in_own_words
from .state import as_items, recall
from .tools import ResponsesReader

LOGPROBS = "message.output_text.logprobs"
INCLUDES = (
    LOGPROBS,
    ENCRYPTED,
    "message.input_image.image_url",
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "web_search_call.action.sources",
    "web_search_call.results",
)
BACKGROUND = "background"
FORMAT = "text.format"


def _own_input(sent_input: Any, recalled: int) -> Any:
    """Return the input without the items of earlier turns, as it is stored."""
    if not isinstance(sent_input, list):
        return sent_input
    return [item for item in sent_input[recalled:] if not is_trigger(item)]


def _check_options(values: Mapping[str, Any]) -> None:
    """Raise InvalidRequest for a response of the background that is not stored, and other
    additional output than the API has."""
    if values.get(BACKGROUND) and not values.get("store", True):
        problem = "requires a stored response. Remove `store: false`, or 'background'."
        raise Fields(values).refusal(BACKGROUND, problem, InvalidRequest)
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
        problem = f"requires logprobs. Add {LOGPROBS!r} to 'include'."
        raise Fields(parsed.values).refusal("logprob_token_ids", problem, InvalidRequest)
    parsed.sampling.pop("logprobs", None)


FORMS = {
    "max_completion_tokens": ("max_output_tokens",),
    "max_tokens": ("max_output_tokens",),
    "reasoning_effort": ("reasoning", "effort"),
    "verbosity": ("text", "verbosity"),
    RESPONSE_FORMAT: ("text", "format"),
}
"""By parameter of chat completions: the parameter, or its member, that has the same meaning here.
"""


def _own_forms(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with those of chat completions in the form of this API, unless they are
    there in this form as well."""
    renamed = {name: value for name, value in values.items() if value is not None}
    for name in filter(renamed.__contains__, FORMS):
        outer, *inner = FORMS[name]
        member = renamed.get(outer, {})
        if not isinstance(member, dict) or {*inner} & member.keys() or (member and not inner):
            continue
        value = renamed.pop(name)
        if name == RESPONSE_FORMAT and isinstance(value, dict):
            nested = value.get("json_schema")
            value = {"type": "json_schema", **nested} if isinstance(nested, dict) else value
        renamed[outer] = {**member, inner[0]: value} if inner else value
    return renamed


SEALED = ("reasoning", "compaction")
"""Types of items that have encrypted content."""


def _is_sealed(item: Any) -> bool:
    return isinstance(item, dict) and item.get("type") in SEALED


def _without_id(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    return {name: value for name, value in item.items() if name != "id"}


COUNTING = Counting(
    path=re.compile(r"(?:(?:/openai)?/v1)?/responses/input_tokens"),
    prepared=dict,
    body=lambda tokens, _: {"object": "response.input_tokens", "input_tokens": tokens},
)


class Responses(Surface):
    name = "responses"
    path = re.compile(r"(?:(?:/openai)?/v1)?/responses")
    """The paths that LiteLLM accepts."""
    call_type = "aresponses"
    parameters = frozenset(RESPONSES_TABLE) | FORMS.keys()
    keep_alive = COMMENT
    counting: Counting | None = COUNTING
    writer: type[ResponsesWriter] = ResponsesWriter

    async def recall(self, body: Mapping[str, Any], client: Client) -> tuple[dict[str, Any], int]:
        return await recall(body, client)

    def runs_in_background(self, body: Mapping[str, Any]) -> bool:
        return body.get(BACKGROUND) is True

    def read(
        self, body: Mapping[str, Any], reading: Reading
    ) -> tuple[ChatRequest, ResponsesWriter]:
        parsed = read_parameters(_own_forms(body), RESPONSES_TABLE)
        values, client = parsed.values, reading.client
        _check_options(values)
        _set_logprobs(parsed)
        sent_input, recalled = values.get("input"), reading.recalled
        features = ActiveFeatures(RESPONSES, FeatureInput(client, values, recalled=recalled))
        reader = ResponsesReader(features, reading)
        reader.read_tools(values.get("tools", ()))
        conversation = parse_input(
            sent_input, values.get("instructions"), features, reader.define_all, recalled=recalled
        )
        if values.get("truncation") == "auto":
            parsed.request["drop_oldest"] = True
        formats = {FORMAT: values.get("text", {}).get("format")}
        choice = reader.choice(values.get("tool_choice"))
        form = content_format(values, formats, read_text_format, reading.open_objects)
        request = reader.request(parsed, conversation, choice, form)
        is_encrypted = ENCRYPTED in values.get("include", ())
        return request, self.writer(
            request,
            values,
            features.input.shown,
            tuple(features),
            _own_input(sent_input, recalled),
            partial(encrypt, client.seal) if client.seal is not None and is_encrypted else None,
            **reader.noted,
        )

    def with_defaults(self, body: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Rename parameters of chat completions. Defaults that are of no use here are left out:
        `n`, `stream_options`, `functions` …"""
        useful = RESPONSES_TABLE.keys() - {"tool_choice", "tools", "stream_options"}
        merged = {name: each for name, each in _own_forms(defaults).items() if name in useful}
        return over_defaults(_own_forms(body), merged, nested=("reasoning", "text"))

    def portable(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Leave out what only this gateway knows: the ids of stored responses and items, and
        reasoning and summaries that are encrypted for it. Raise UnsupportedParameter for a response
        of the background: the response of another provider is not stored."""
        if body.get(BACKGROUND):
            raise UnsupportedParameter(
                f"The models of other providers do not support {BACKGROUND!r}.", param=BACKGROUND
            )
        kept = {name: value for name, value in body.items() if name != PREVIOUS}
        items = body.get("input")
        if isinstance(items, list):
            kept["input"] = [_without_id(item) for item in items if not _is_sealed(item)]
        return kept

    def error(self, error: ToolgateError, request_id: str | None = None) -> dict[str, Any]:
        if isinstance(error, UnsupportedParameter):
            return error.body()  # The parser's words, about what the client named.
        return in_own_words(error.body())

    def error_event(self, shown: Mapping[str, Any]) -> bytes:
        return failed_events(shown["error"])


class Compact(Responses):
    path = re.compile(r"(?:(?:/openai)?/v1)?/responses/compact")
    counting: Counting | None = None
    writer = CompactWriter

    async def recall(self, body: Mapping[str, Any], client: Client) -> tuple[dict[str, Any], int]:
        return await super().recall(_with_trigger(body), client)


def _with_trigger(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a request for a response that is not stored. Raise UnsupportedParameter.
    An invalid `input` stays as it is: the parser reports it."""
    if body.get("stream"):
        raise Fields(body).refusal("stream", "is not supported by this operation. Remove it.")
    sent_input = body.get("input")
    items = as_items(sent_input)
    if not items and (sent_input is not None or not isinstance(body.get(PREVIOUS), str)):
        return dict(body)
    return {**body, "input": [*items, {"type": TRIGGER}], "store": False}
