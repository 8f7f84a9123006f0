"""OpenAI's request → `ChatRequest`, or the 400 that names the parameter. Nothing is dropped in
silence: `parameters.py` says of each parameter whether it is taken, has no bearing, or is refused.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from typing import Any

from toolgate_core import wire
from toolgate_core.errors import InvalidRequest, UnsupportedParameter
from toolgate_core.plan import ChatRequest, Tool

from ...request_fields import Fields
from . import reasoning
from .messages import parse_messages
from .parameters import BY_NAME, unknown
from .response_format import SCHEMA_PARAM, STRUCTURED_PARAM, response_format
from .sampling import INT64, MOST, sampling, stop_strings
from .tools import is_legacy, tool_choice, tools

REQUEST_ID = re.compile(r"[!-~]{1,128}")


NOT_PARAMETERS = ("model", "messages", "stream", "extra_body")
"""Fields of a body that `admit` gets apart from its parameters."""


def parse_request(
    body: Mapping[str, Any], *, model: str, open_objects: bool = False
) -> ChatRequest:
    """`body`: of the HTTP request; `model`: as the backend names it. What `admit` raises."""
    fields = Fields(body)
    params = {name: value for name, value in body.items() if name not in NOT_PARAMETERS}
    for name, value in (fields.mapping("extra_body") or {}).items():
        if name in NOT_PARAMETERS:
            raise unknown(f"extra_body.{name}")
        params[name] = value
    stream = fields.flag("stream") or False
    return admit(model, body.get("messages"), params, stream=stream, open_objects=open_objects)


def admit(
    model: str,
    messages: object,
    params: Mapping[str, Any],
    *,
    stream: bool,
    open_objects: bool = False,
) -> ChatRequest:
    """`params` is the request's body without model, messages and stream.

    Raises InvalidRequest, InvalidTools or UnsupportedParameter with `param` set.
    """
    fields = Fields({name: value for name, value in params.items() if value is not None})
    _check_names(fields)
    legacy = is_legacy(fields)
    parsed = parse_messages(messages)
    _check_plain(fields)
    return ChatRequest(
        request_id=f"chatcmpl-{secrets.token_hex(16)}",
        answer_id=_answer_id(fields),
        model=model,
        messages=parsed,
        images=_has_images(parsed),
        tools=tools(fields, open_objects=open_objects),
        tool_choice=tool_choice(fields),
        parallel_tool_calls=not legacy and fields.flag("parallel_tool_calls") is not False,
        reasoning=reasoning.reasoning_mode(fields),
        template_kwargs=reasoning.template_kwargs(fields),
        sampling=sampling(fields, stream=stream),
        reasoning_budget=reasoning.reasoning_budget(fields),
        on_budget=_on_budget(fields),
        content_format=_content_format(fields, open_objects=open_objects),
        content_param=STRUCTURED_PARAM if "structured_outputs" in fields.values else SCHEMA_PARAM,
        stop=stop_strings(fields),
        include_stop=fields.flag("include_stop_str_in_output") or False,
        stream=stream,
        include_usage=_stream_option(fields, "include_usage", stream=stream),
        continuous_usage=_stream_option(fields, "continuous_usage_stats", stream=stream),
        include_reasoning=fields.flag("include_reasoning") is not False,
        return_token_ids=fields.flag("return_token_ids") or False,
        return_prompt_text=fields.flag("return_prompt_text") or False,
        tokens_as_ids=fields.flag("return_tokens_as_token_ids") or False,
        tokenizing=_tokenizing(fields),
        echo=_echo(fields, parsed),
        legacy_functions=legacy,
        priority=fields.integer("priority", *INT64) or 0,
        cache_salt=_cache_salt(fields),
    )


def _check_names(fields: Fields) -> None:
    for name, value in fields.values.items():
        known = BY_NAME.get(name)
        if known is None:
            raise unknown(name)
        if known.support == "refused":
            raise UnsupportedParameter(f"{name!r} is not supported: {known.note}.", param=name)
        if known.support == "only default" and value not in known.defaults:
            raise UnsupportedParameter(
                f"This value of {name!r} is not supported: {known.note}.", param=name
            )


def _on_budget(fields: Fields) -> wire.OnBudget:
    given = fields.mapping("toolgate") or {}
    ours = Fields(given, "toolgate")
    for name in given:
        if name != "on_budget":
            path = ours.path(name)
            raise UnsupportedParameter(f"The parameter {path!r} is not known.", param=path)
    choice = ours.text("on_budget") or "cut"
    if choice not in ("cut", "close"):
        raise ours.wrong("on_budget", '"cut" or "close"')
    return "close" if choice == "close" else "cut"


def _stream_option(fields: Fields, wanted: str, *, stream: bool) -> bool:
    given = fields.mapping("stream_options")
    if given is None:
        return False
    if not stream:
        raise InvalidRequest("'stream_options' needs 'stream': true.", param="stream_options")
    options = Fields(given, "stream_options")
    for name, value in given.items():
        # OpenAI pads its chunks against eavesdropping unless told otherwise; ours are not padded.
        known = ("include_usage", "continuous_usage_stats", "include_obfuscation")
        if name not in known and value:
            path = options.path(name)
            raise UnsupportedParameter(f"{path!r} is not supported.", param=path)
    return options.flag(wanted) or False


def _check_plain(fields: Fields) -> None:
    """What acts on plain content alone: in a call or a form it would keep from coming what must."""
    for name in ("allowed_token_ids", "repetition_detection"):
        if name not in fields.values:
            continue
        for other in ("tools", "functions", "response_format", "structured_outputs"):
            if fields.values.get(other):
                raise UnsupportedParameter(
                    f"{name!r} can't be combined with {other!r}.", param=name
                )


def _answer_id(fields: Fields) -> str | None:
    """vLLM's `request_id`, which is in the answer's id."""
    given = fields.text("request_id")
    if given is not None and not REQUEST_ID.fullmatch(given):
        raise fields.wrong("request_id", "1 to 128 visible characters")
    return None if given is None else f"chatcmpl-{given}"


def _tokenizing(fields: Fields) -> wire.Tokenizing:
    side = fields.text("truncation_side")
    if side not in (None, "left", "right"):
        raise fields.wrong("truncation_side", '"left" or "right"')
    return wire.Tokenizing(
        add_special_tokens=fields.flag("add_special_tokens") or False,
        truncate_prompt_tokens=fields.integer("truncate_prompt_tokens", -1, MOST),
        truncation_side=side,
    )


def _echo(fields: Fields, messages: tuple[dict[str, Any], ...]) -> str:
    """The last message's text, where it is the assistant's and is wanted in the answer."""
    if not fields.flag("echo"):
        return ""
    last = messages[-1]
    content = last.get("content") if last["role"] == "assistant" else None
    if isinstance(content, list):
        return "".join(part["text"] for part in content)
    return content or ""


def _content_format(fields: Fields, *, open_objects: bool) -> Tool | None:
    if not fields.values.keys() & {"response_format", "structured_outputs"}:
        return None
    return response_format(fields, open_objects=open_objects)


def _has_images(messages: tuple[dict[str, Any], ...]) -> bool:
    parts = (message["content"] for message in messages if isinstance(message["content"], list))
    return any(part["type"] == "image_url" for content in parts for part in content)


def _cache_salt(fields: Fields) -> str | None:
    salt = fields.text("cache_salt")
    if salt == "":
        raise fields.wrong("cache_salt", "a string that is not empty")
    return salt
