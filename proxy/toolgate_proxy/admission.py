"""OpenAI's request → `ChatRequest`, or the 400 that names the parameter. Nothing is dropped in
silence: a parameter is taken, known to have no bearing here, or refused."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest, InvalidTools, UnsupportedParameter
from toolgate_core.plan import ChatRequest, NamedTool, Tool, ToolChoice, parse_tools

from .checks import Fields, as_integer, as_number
from .messages import parse_messages

TAKEN = frozenset(
    {
        "cache_salt",
        "chat_template_kwargs",
        "frequency_penalty",
        "ignore_eos",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "min_p",
        "min_tokens",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "priority",
        "reasoning_effort",
        "repetition_penalty",
        "seed",
        "stop",
        "stop_token_ids",
        "stream_options",
        "temperature",
        "tool_choice",
        "tools",
        "top_k",
        "top_logprobs",
        "top_p",
    }
)

NO_BEARING = frozenset(
    {
        # About the account, the record or the price of a request, never about its answer.
        "metadata",
        "prompt_cache_key",
        "prompt_cache_retention",
        "safety_identifier",
        "service_tier",
        "store",
        "user",
        # LiteLLM's own.
        "extra_headers",
        "max_retries",
        "stream",
    }
)

ONLY_DEFAULTS: dict[str, tuple[object, ...]] = {
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "verbosity": ("medium",),
    "echo": (False,),
    "include_reasoning": (True,),
    "add_generation_prompt": (True,),
    "skip_special_tokens": (True,),
}
"""Parameters of OpenAI or vLLM that have no effect yet: their defaults pass."""

NOT_WITH_TOOLS = ("ignore_eos", "min_tokens", "stop_token_ids")
"""They end an answer, or keep it from ending, by other rules than those a call is held to."""

RESERVED_TEMPLATE_KWARGS = frozenset(
    {"add_generation_prompt", "chat_template", "conversation", "messages", "tokenize", "tools"}
)
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh")
MAX_STOPS = 4
MAX_TOP_LOGPROBS = 20
SEEDS = (-(2**63), 2**63 - 1)


def admit(model: str, messages: object, params: Mapping[str, Any], *, stream: bool) -> ChatRequest:
    """`params` is the request's body without model, messages and stream.

    Raises InvalidRequest, InvalidTools or UnsupportedParameter with `param` set.
    """
    fields = Fields({name: value for name, value in params.items() if value is not None})
    _check_names(fields)
    tools = _tools(fields)
    _check_company(fields, tools)
    reasoning, template_kwargs = _template(fields)
    return ChatRequest(
        request_id=f"chatcmpl-{secrets.token_hex(16)}",
        model=model,
        messages=parse_messages(messages),
        tools=tools,
        tool_choice=_tool_choice(fields),
        parallel_tool_calls=fields.flag("parallel_tool_calls") is not False,
        reasoning=reasoning,
        template_kwargs=template_kwargs,
        sampling=_sampling(fields),
        stop=_stop(fields),
        stream=stream,
        include_usage=_include_usage(fields, stream=stream),
        priority=fields.integer("priority") or 0,
        cache_salt=fields.text("cache_salt"),
    )


def _check_names(fields: Fields) -> None:
    for name, value in fields.values.items():
        if name in TAKEN or name in NO_BEARING:
            continue
        if name not in ONLY_DEFAULTS:
            raise UnsupportedParameter(f"The parameter {name!r} is not supported.", param=name)
        if value not in ONLY_DEFAULTS[name]:
            raise UnsupportedParameter(f"This value of {name!r} is not supported.", param=name)


def _check_company(fields: Fields, tools: tuple[Tool, ...]) -> None:
    for name in NOT_WITH_TOOLS:
        if tools and fields.values.get(name):
            raise UnsupportedParameter(f"{name!r} can't be combined with tools.", param=name)


def _tools(fields: Fields) -> tuple[Tool, ...]:
    try:
        return parse_tools(fields.items("tools") or [])
    except RecursionError as error:
        raise InvalidTools("'tools' is nested too deeply.", param="tools") from error


def _tool_choice(fields: Fields) -> ToolChoice:
    choice = fields.values.get("tool_choice")
    if choice is None:
        return "auto"  # without tools, the plan makes "none" of it
    if choice in ("none", "auto", "required"):
        return choice  # type: ignore[no-any-return]
    if not isinstance(choice, dict):
        raise fields.wrong("tool_choice", '"none", "auto", "required" or an object naming a tool')
    if choice.get("type") != "function":
        raise UnsupportedParameter(
            f"A tool_choice of type {choice.get('type')!r} is not supported.", param="tool_choice"
        )
    function = choice.get("function")
    name = function.get("name") if isinstance(function, dict) else None
    if not isinstance(name, str):
        raise fields.wrong("tool_choice", "an object with the tool's name at function.name")
    return NamedTool(name)


def _template(fields: Fields) -> tuple[wire.ReasoningMode, dict[str, Any] | None]:
    """How the answer may reason, and what the chat template is given.

    `enable_thinking` among the template's arguments goes before `reasoning_effort`, as in vLLM.
    """
    given = Fields(fields.mapping("chat_template_kwargs") or {}, "chat_template_kwargs")
    for name in RESERVED_TEMPLATE_KWARGS.intersection(given.values):
        raise UnsupportedParameter(f"{given.path(name)!r} can't be set.", param=given.path(name))
    thinking = given.flag("enable_thinking")
    kwargs = dict(given.values)
    effort = fields.text("reasoning_effort")
    if effort is not None:
        if effort not in EFFORTS:
            raise fields.wrong("reasoning_effort", f"one of {', '.join(EFFORTS)}")
        kwargs.setdefault("reasoning_effort", effort)
        if thinking is None:
            thinking = effort != "none"
    if thinking is None:
        kwargs.pop("enable_thinking", None)
        return "default", kwargs or None
    return ("on" if thinking else "off"), kwargs | {"enable_thinking": thinking}


def _sampling(fields: Fields) -> wire.Sampling:
    limit = fields.integer("max_completion_tokens", 1)
    return wire.Sampling(
        n=fields.integer("n", 1, 128) or 1,
        max_tokens=fields.integer("max_tokens", 1) if limit is None else limit,
        min_tokens=fields.integer("min_tokens", 0) or 0,
        temperature=fields.number("temperature", 0),
        top_p=fields.number("top_p", 0, 1, above=True),
        top_k=fields.integer("top_k", -1),
        min_p=fields.number("min_p", 0, 1),
        presence_penalty=fields.number("presence_penalty", -2, 2),
        frequency_penalty=fields.number("frequency_penalty", -2, 2),
        repetition_penalty=fields.number("repetition_penalty", 0, above=True),
        seed=fields.integer("seed", *SEEDS),
        stop_token_ids=_stop_token_ids(fields),
        ignore_eos=fields.flag("ignore_eos") or False,
        logit_bias=_logit_bias(fields),
        logprobs=_logprobs(fields),
    )


def _stop(fields: Fields) -> tuple[str, ...]:
    stop = fields.values.get("stop")
    stops = [stop] if isinstance(stop, str) else stop or []
    if (
        not isinstance(stops, list)
        or len(stops) > MAX_STOPS
        or not all(isinstance(text, str) and text for text in stops)
    ):
        raise fields.wrong("stop", f"a string or up to {MAX_STOPS} of them, none of them empty")
    return tuple(stops)


def _stop_token_ids(fields: Fields) -> tuple[int, ...]:
    ids = [as_integer(token) for token in fields.items("stop_token_ids") or []]
    known = tuple(token for token in ids if token is not None and token >= 0)
    if len(known) != len(ids):
        raise fields.wrong("stop_token_ids", "an array of token ids")
    return known


def _logit_bias(fields: Fields) -> dict[int, float] | None:
    """JSON's keys are strings: {"50256": -100}."""
    given = fields.mapping("logit_bias")
    if not given:
        return None
    biases: dict[int, float] = {}
    for key, value in given.items():
        bias = as_number(value)
        if not (isinstance(key, str) and key.isascii() and key.isdigit()) or bias is None:
            raise fields.wrong("logit_bias", "an object of numbers by token id")
        if not -100 <= bias <= 100:
            raise fields.wrong("logit_bias", "an object of numbers from -100 to 100")
        biases[int(key)] = bias
    return biases


def _logprobs(fields: Fields) -> int | None:
    """How many alternatives a token's logprobs come with; None where none are asked for."""
    wanted = fields.flag("logprobs")
    top = fields.integer("top_logprobs", 0, MAX_TOP_LOGPROBS)
    if wanted:
        return top or 0
    if top:
        raise InvalidRequest("'top_logprobs' needs 'logprobs': true.", param="top_logprobs")
    return None


def _include_usage(fields: Fields, *, stream: bool) -> bool:
    given = fields.mapping("stream_options")
    if given is None:
        return False
    if not stream:
        raise InvalidRequest("'stream_options' needs 'stream': true.", param="stream_options")
    options = Fields(given, "stream_options")
    for name, value in given.items():
        # OpenAI pads its chunks against eavesdropping unless told otherwise; ours are not padded.
        if name not in ("include_usage", "include_obfuscation") and value:
            path = options.path(name)
            raise UnsupportedParameter(f"{path!r} is not supported.", param=path)
    return options.flag("include_usage") or False
