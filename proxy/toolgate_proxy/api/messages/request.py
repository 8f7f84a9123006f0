"""Convert the body of a Messages request to a ChatRequest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

from toolgate_core.chat_request import ChatRequest

from ...features.all import MESSAGES
from ...features.feature import Asked, Used
from ...request_fields import invalid_value
from ..shared.content_format import content_format, read_format
from ..shared.history import Conversation
from ..shared.parameter import read_parameters
from ..shared.template import reasoning_mode
from ..surface import Client, Reading
from .messages import parse_messages
from .opaque import sign
from .parameters import BY_NAME
from .response import MessagesWriter
from .tools import FORMAT, OLD_FORMAT, MessagesReader, eager_tools, read_tool_choice


def read(body: Mapping[str, Any], reading: Reading) -> tuple[ChatRequest, MessagesWriter]:
    """Read a body, as `Surface.read` describes it."""
    parsed = read_parameters(body, BY_NAME)
    values, given = parsed.values, parsed.request
    if "max_tokens" not in values:
        raise invalid_value("max_tokens", "an integer from 1", None)
    thinking = values.get("thinking", {})
    if thinking.get("type") == "enabled" and "budget_tokens" not in thinking:
        raise invalid_value("thinking.budget_tokens", "an integer from 1", None)
    used = Used(MESSAGES, Asked(reading.client, values))
    reader = MessagesReader(used, reading)
    reader.read_tools(values.get("tools", ()))
    conversation = parse_messages(values.get("messages"), values.get("system"), used, reader.define)
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
        template=_template_values(values, conversation, reasons=mode != "off"),
        budget=with_effort(values) if mode == "on" else values,
    )
    return request, MessagesWriter(
        request,
        tuple(used),
        eager_tools(values.get("tools", ()), reading.client),
        thinking.get("display") == "omitted",
        _signer(reading.client),
        conversation.part_paths,
        **reader.noted,
    )


def _signer(client: Client) -> Callable[[str], str]:
    """Return the function that signs reasoning. The stream and the log event of one response have
    the same signatures."""
    if client.seal is None:
        return lambda _: ""
    return lru_cache(maxsize=8)(partial(sign, client.seal))


def _template_values(
    values: Mapping[str, Any], conversation: Conversation, *, reasons: bool
) -> Mapping[str, Any]:
    """Return the parameters that decide about the template. A response continues the text of a last
    message of the assistant."""
    last = conversation.messages[-1]
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
