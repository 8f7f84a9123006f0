"""Convert the body of a Messages request to a ChatRequest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

from toolgate_core import wire
from toolgate_core.chat_request import ChatRequest, NamedTool, ToolChoice
from toolgate_core.errors import UnsupportedParameter
from toolgate_core.tools import OnInvalid, Tool, refuse

from ...features.all import MESSAGES
from ...features.feature import Asked, Used
from ...request_fields import Fields, invalid_value, unknown_value
from ..shared.chat_request import Salt, as_sent, chat_request
from ..shared.content_format import STRUCTURED_OUTPUTS, read_format, read_structured_outputs
from ..shared.history import History
from ..shared.parameter import read_parameters
from ..shared.template import reasoning_mode
from ..shared.tools import HostedTools
from ..surface import ANY_CLIENT, Client
from .conversation.content import check_fields
from .conversation.messages import parse_messages
from .conversation.signature import sign
from .conversation.turns import Conversation
from .feature import MessagesWritten
from .parameters import BY_NAME, CHOICE, CHOICE_KINDS, CHOICE_TYPES, MODES
from .tools import ToolReader

FORMAT = "output_config.format"
OLD_FORMAT = "output_format"


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
    parsed = read_parameters(body, BY_NAME)
    values = parsed.values
    if "max_tokens" not in values:
        raise invalid_value("max_tokens", "an integer from 1", None)
    check_thinking(values)
    values[FORMAT] = values.get("output_config", {}).get("format")
    history, hosted = History(), HostedTools(omit_hosted)
    used = Used(MESSAGES, Asked(client, values, history))
    reader = ToolReader(hosted, used, open_objects, on_invalid)
    tools = used.asked.tools = reader.toolset(values.get("tools", ()))
    conversation = parse_messages(values.get("messages"), values.get("system"), used, reader.define)
    choice = read_tool_choice(values.get("tool_choice"))
    mode = reasoning_mode(values)
    own = used.fields()
    parsed.request["include_reasoning"] = is_shown(values, mode)
    parsed.request.setdefault("fit_max_tokens", True)  # clients must send some `max_tokens`
    return chat_request(
        parsed,
        salt=salt,
        prefix="msg_",
        model=model,
        messages=conversation.messages,
        paths=conversation.paths,
        history=history,
        tools=tools,
        gateway_tools=used.runners(),
        optional_tools=used.optional,
        hosted=hosted,
        choice=choice.choice,
        constraints=("tools", FORMAT, OLD_FORMAT, STRUCTURED_OUTPUTS),
        template=_template_values(values, mode, conversation),
        budget=with_effort(values) if mode == "on" else values,
        parallel_tool_calls=choice.parallel,
        content_format=_content_format(values, open_objects=open_objects),
        **own,
        written=MessagesWritten(
            tuple(used),
            frozenset(reader.eager),
            is_omitted(values),
            _signer(client),
            conversation.part_paths,
        ),
    )


def _signer(client: Client) -> Callable[[str], str]:
    """Return the function that signs reasoning. The stream and the log event of one response have
    the same signatures."""
    if client.seal is None:
        return lambda _: ""
    return lru_cache(maxsize=8)(partial(sign, client.seal))


def _template_values(
    values: Mapping[str, Any], mode: wire.ReasoningMode, conversation: Conversation
) -> Mapping[str, Any]:
    """Return the parameters that decide about the template. A response continues the text of a last
    message of the assistant."""
    last = conversation.messages[-1]
    prefilled = last["role"] == "assistant" and last.get("content") and "tool_calls" not in last
    chosen = "continue_final_message" in values or "add_generation_prompt" in values
    if prefilled and not chosen:
        values = {**values, "continue_final_message": True}
    return with_effort(values) if mode != "off" else values


def _content_format(values: Mapping[str, Any], *, open_objects: bool) -> Tool | None:
    paths = (FORMAT, OLD_FORMAT, STRUCTURED_OUTPUTS)
    given = {path: values[path] for path in paths if values.get(path) is not None}
    if len(given) > 1:
        first, second, *_ = given
        raise UnsupportedParameter(
            f"{second!r} can't be combined with {first!r}. Remove one of them.", param=second
        )
    for path, value in given.items():
        if path == STRUCTURED_OUTPUTS:
            return read_structured_outputs(value, open_objects=open_objects)
        return read_format(value, path, open_objects=open_objects, named=False)
    return None


def check_thinking(values: Mapping[str, Any]) -> None:
    """Raise InvalidRequest if thinking is enabled without a budget."""
    thinking = values.get("thinking", {})
    if thinking.get("type") == "enabled" and "budget_tokens" not in thinking:
        raise invalid_value("thinking.budget_tokens", "an integer from 1", None)


def with_effort(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values with the shared parameter that has the effort. The effort alone does not
    turn reasoning on. It sets the budget of thinking that is on and has none of its own."""
    effort = values.get("output_config", {}).get("effort")
    return values if effort is None else {**values, "reasoning_effort": effort}


def is_shown(values: Mapping[str, Any], mode: wire.ReasoningMode) -> bool:
    """Return whether the response has thinking blocks: if the request asks for thinking."""
    return bool(values.get("include_reasoning", mode == "on"))


def is_omitted(values: Mapping[str, Any]) -> bool:
    """Return whether thinking blocks have a signature only."""
    return bool(values.get("thinking", {}).get("display") == "omitted")


@dataclass(frozen=True)
class RequestedChoice:
    choice: ToolChoice
    parallel: bool
    """Whether the response may have several calls."""


def read_tool_choice(given: object) -> RequestedChoice:
    """Raises InvalidRequest and UnsupportedParameter."""
    if given is None:
        return RequestedChoice("auto", parallel=True)
    if not isinstance(given, dict):
        written = '{"type": "{}"}'
        raise unknown_value("tool_choice", CHOICE, given, CHOICE_TYPES, suggestion=written)
    fields = Fields(given, "tool_choice")
    kind = fields.text("type")
    if kind is None or kind not in CHOICE_TYPES:
        raise unknown_value(fields.path("type"), CHOICE_KINDS, kind, CHOICE_TYPES)
    check_fields(fields, ("type", "name", "disable_parallel_tool_use"))
    parallel = not fields.flag("disable_parallel_tool_use")
    if kind == "tool":
        name = fields.text("name")
        if not name:
            raise fields.wrong("name", "the name of a tool")
        return RequestedChoice(NamedTool(name), parallel)
    if given.get("name") is not None:
        raise fields.wrong("name", 'left out, except with the type "tool"')
    return RequestedChoice(MODES[kind], parallel)
