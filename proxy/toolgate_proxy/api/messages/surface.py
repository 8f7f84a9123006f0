"""The API surface for Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from functools import partial
from typing import Any

from toolgate_core.errors import ToolgateError

from ...features.all import MESSAGES
from ...features.feature import ActiveFeatures, FeatureInput
from ...request.chat_request import ChatRequest
from ...request_fields import invalid_value
from ..shared.content_format import content_format, read_format
from ..shared.output import typed_events
from ..shared.parameter import MESSAGES_TABLE, over_defaults, read_parameters
from ..shared.rules import reasoning_mode
from ..surface import Counting, Reading, Surface
from .messages import parse_messages
from .opaque import signer
from .response import MessagesWriter, error_body
from .tools import FORMAT, OLD_FORMAT, MessagesReader, eager_tools, read_tool_choice


def _template_values(
    values: Mapping[str, Any], last: Mapping[str, Any], *, reasons: bool
) -> Mapping[str, Any]:
    """Return the parameters that decide about the template. A response continues the text of the
    `last` message, if it is the assistant's."""
    prefilled = last["role"] == "assistant" and last.get("content") and "tool_calls" not in last
    chosen = "continue_final_message" in values or "add_generation_prompt" in values
    if prefilled and not chosen:
        values = {**values, "continue_final_message": True}
    return with_effort(values) if reasons else values


def with_effort(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values with the shared parameter that has the effort. The effort alone does not
    turn reasoning on. It sets the budget of thinking that is on and has none of its own."""
    effort = values.get("output_config", {}).get("effort")
    return values if effort is None else {**values, "reasoning_effort": effort}


RENAMED = {"max_completion_tokens": "max_tokens", "stop": "stop_sequences"}
NOT_TAKEN = ("tools", "tool_choice", "metadata")
EFFORT_OF = {"minimal": "low"}
"""By effort of chat completions: the effort of this API, if it is another one."""


def _set_effort(merged: dict[str, Any], effort: Any) -> None:
    if effort == "none":
        merged.setdefault("thinking", {"type": "disabled"})
        return
    config = merged.setdefault("output_config", {})
    config["effort"] = EFFORT_OF.get(effort, effort)


def _set_format(merged: dict[str, Any], form: Any) -> None:
    """JSON without a schema is not a format of this API."""
    nested = form.get("json_schema") if isinstance(form, dict) else None
    if isinstance(nested, dict):
        config = merged.setdefault("output_config", {})
        config["format"] = {"type": "json_schema", "schema": nested.get("schema")}
    elif isinstance(form, dict) and form.get("type") == "json_object":
        merged["structured_outputs"] = {"json_object": True}


OWN = ("thinking", "redacted_thinking")
"""Types of the blocks that this gateway has signed."""
COMPACTION = "compaction"


def _without_thinking(message: Any) -> Any:
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list):
        return message
    left = [
        _with_text(block)
        for block in content
        if not (isinstance(block, dict) and block.get("type") in OWN)
    ]
    return {**message, "content": left}


def _with_text(block: Any) -> Any:
    if not isinstance(block, dict) or block.get("type") != COMPACTION:
        return block
    return {"type": "text", "text": block.get("content") or ""}


MODELS = re.compile(r"(?:/v1)?/models(?:/.+)?", re.DOTALL)
VERSION_HEADER = "anthropic-version"
"""A header that only clients of Anthropic's API send. Some paths are in both APIs."""


def _counted(tokens: int, cleared: int | None) -> dict[str, Any]:
    body: dict[str, Any] = {"input_tokens": tokens}
    if cleared is not None:
        body["context_management"] = {"original_input_tokens": tokens + cleared}
    return body


COUNTING = Counting(
    path=re.compile(r"/v1/messages/count_tokens"),
    # `max_tokens` is required for a message, and no parameter here.
    prepared=lambda body: {**body, "max_tokens": body.get("max_tokens") or 1},
    body=_counted,
)


class Messages(Surface):
    name = "messages"
    path = re.compile(r"/v1/messages")
    """The path that LiteLLM accepts."""
    call_type = "anthropic_messages"
    parameters = frozenset(MESSAGES_TABLE)
    keep_alive = typed_events([{"type": "ping"}])
    rate_limits = "anthropic"
    request_id_header = "request-id"
    counting = COUNTING

    def owns(self, path: str, headers: Container[str]) -> bool:
        if MODELS.fullmatch(path) is not None:
            return VERSION_HEADER in headers
        return path == "/v1/messages" or path.startswith("/v1/messages/")

    def error(self, error: ToolgateError, request_id: str | None = None) -> dict[str, Any]:
        return error_body(error, request_id)

    def error_event(self, shown: Mapping[str, Any]) -> bytes:
        return typed_events([shown])

    def read(self, body: Mapping[str, Any], reading: Reading) -> tuple[ChatRequest, MessagesWriter]:
        parsed = read_parameters(body, MESSAGES_TABLE)
        values, given = parsed.values, parsed.request
        if "max_tokens" not in values:
            raise invalid_value("max_tokens", "an integer from 1", None)
        thinking = values.get("thinking", {})
        if thinking.get("type") == "enabled" and "budget_tokens" not in thinking:
            raise invalid_value("thinking.budget_tokens", "an integer from 1", None)
        features = ActiveFeatures(MESSAGES, FeatureInput(reading.client, values))
        reader = MessagesReader(features, reading)
        reader.read_tools(values.get("tools", ()))
        conversation = parse_messages(
            values.get("messages"), values.get("system"), features, reader.define
        )
        choice, given["parallel_tool_calls"] = read_tool_choice(values.get("tool_choice"))
        mode = reasoning_mode(values)
        given.setdefault("include_reasoning", mode == "on")
        parsed.options.setdefault("fit_max_tokens", True)  # clients must send some `max_tokens`
        values[FORMAT] = values.get("output_config", {}).get("format")
        formats = {path: values.get(path) for path in (FORMAT, OLD_FORMAT)}
        read_unnamed = partial(read_format, named=False)
        request = reader.request(
            parsed,
            conversation,
            choice,
            content_format(values, formats, read_unnamed, reading.open_objects),
            template=_template_values(values, conversation.messages[-1], reasons=mode != "off"),
            budget=with_effort(values) if mode == "on" else values,
        )
        return request, MessagesWriter(
            request,
            tuple(features),
            eager_tools(values.get("tools", ()), reading.client),
            thinking.get("display") == "omitted",
            signer(reading.client.seal),
            conversation.part_paths,
            **reader.noted,
        )

    def with_defaults(self, body: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
        """Rename the defaults. Those that are of no use here are left out: `n`, `stream_options`,
        `functions` …"""
        merged: dict[str, Any] = {}
        for name, value in defaults.items():
            name = RENAMED.get(name, name)
            if name == "reasoning_effort":
                _set_effort(merged, value)
            elif name == "response_format":
                _set_format(merged, value)
            elif name == "stop_sequences":
                merged[name] = [value] if isinstance(value, str) else value
            elif name in MESSAGES_TABLE and name not in NOT_TAKEN:
                merged[name] = value
        return over_defaults(body, merged, nested=("output_config",))

    def portable(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Leave out the thinking of earlier turns, whose signatures other providers refuse. They
        also refuse a turn without thinking while `thinking` is on, so it is left out then. A
        summary becomes text."""
        messages = body.get("messages")
        if not isinstance(messages, list):
            return dict(body)
        kept = [_without_thinking(message) for message in messages]
        if kept == messages:
            return dict(body)
        rest = {name: value for name, value in body.items() if name != "thinking"}
        return {**rest, "messages": kept}
