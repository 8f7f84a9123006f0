"""Requests in no API's form with all that the APIs have in common, and their bodies in each form.
The common part is that of `toolgate_verify`."""

import base64
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.support.apis.messages_api import SEAL
from toolgate_proxy.api.messages.opaque import signer
from toolgate_proxy.api.responses.surface import LOGPROBS
from toolgate_verify.asking import ask, chat, request, responses
from toolgate_verify.terms import Api

Json = dict[str, Any]
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
URL = f"data:image/png;base64,{PNG}"
IMAGES: dict[Api, Json] = {
    Api.CHAT: {"type": "image_url", "image_url": {"url": URL}},
    Api.RESPONSES: {"type": "input_image", "image_url": URL},
    Api.MESSAGES: {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": PNG},
    },
}
TURNS = {Api.CHAT: "messages", Api.RESPONSES: "input", Api.MESSAGES: "messages"}
SURFACES = {Api.CHAT: "chat completions", Api.RESPONSES: "responses", Api.MESSAGES: "messages"}
CHOICES = {"none": "none", "auto": "auto", "required": "any"}


@dataclass(frozen=True)
class Call:
    id: str
    name: str
    arguments: Json


@dataclass(frozen=True)
class User:
    texts: tuple[str, ...]
    """One or several parts."""
    image: bool = False
    """Whether an image follows."""


@dataclass(frozen=True)
class Assistant:
    reasoning: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()


@dataclass(frozen=True)
class Result:
    call_id: str
    texts: tuple[str, ...]
    image: bool = False
    """Whether an image follows."""


Turn = User | Assistant | tuple[Result, ...]


@dataclass(frozen=True)
class Thinking:
    """`effort` and `budget` only while it is on, and one of them at most."""

    on: bool
    effort: str | None = None
    budget: int | None = None


@dataclass(frozen=True)
class NeutralRequest:
    turns: tuple[Turn, ...]
    max_tokens: int
    system: str = ""
    tools: tuple[Json, ...] = ()
    """Functions."""
    choice: Literal["none", "auto", "required"] = "auto"
    named: str | None = None
    """The tool that must be called."""
    allowed: tuple[str, ...] = ()
    """The tools that may be called."""
    parallel: bool = True
    format: Json | None = None
    """JSON Schema of the content."""
    thinking: Thinking | None = None
    stop: tuple[str, ...] = ()
    top_logprobs: int | None = None
    shared: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that all APIs have."""


def bodies(asked: NeutralRequest) -> dict[str, Json]:
    """By name of the surface. The Messages API has neither logprobs nor allowed tools."""
    can_say = [Api.CHAT, Api.RESPONSES]
    if asked.top_logprobs is None and not asked.allowed:
        can_say.append(Api.MESSAGES)
    return {SURFACES[api]: _body(api, asked) for api in can_say}


def _body(api: Api, asked: NeutralRequest) -> Json:
    usual = ask.Ask(
        (),
        system=asked.system,
        max_tokens=asked.max_tokens,
        temperature=None,
        stop=asked.stop,
        reasoning=None,
        extra={"model": "tiny", **asked.shared},
    )
    body: Json = {**(request(api, usual).body or {})}
    # Messages of chat completions begin with the system prompt.
    body[TURNS[api]] += [each for turn in asked.turns for each in _turn(api, turn)]
    return body | (_of_messages(asked) if api == Api.MESSAGES else _of_openai(api, asked))


def _of_openai(api: Api, asked: NeutralRequest) -> Json:
    """The parameters of chat completions and Responses that have forms of their own."""
    in_chat = api == Api.CHAT
    named = chat.named if in_chat else responses.named
    made: Json = {}
    if isinstance(asked.turns[-1], Assistant):  # which is always continued in the Messages API
        made["continue_final_message"] = True
    if not asked.parallel:
        made["parallel_tool_calls"] = False
    if asked.stop:
        made["stop"] = [*asked.stop]
    for tool in asked.tools:
        wrapped = {"type": "function", **({"function": tool} if in_chat else tool)}
        made.setdefault("tools", []).append(wrapped)
        made["tool_choice"] = named(asked.named) if asked.named else asked.choice
    if asked.allowed:
        allowed = {"mode": asked.choice, "tools": [named(name) for name in asked.allowed]}
        more = {"allowed_tools": allowed} if in_chat else allowed
        made["tool_choice"] = {"type": "allowed_tools", **more}
    if asked.format is not None:
        form = {"name": "x", "schema": asked.format}
        if in_chat:
            made["response_format"] = {"type": "json_schema", "json_schema": form}
        else:
            made["text"] = {"format": {"type": "json_schema", **form}}
    if (thinking := asked.thinking) is not None:
        if thinking.effort is None:
            made["enable_thinking"] = thinking.on
        elif in_chat:
            made["reasoning_effort"] = thinking.effort
        else:
            made["reasoning"] = {"effort": thinking.effort}
        if thinking.budget is not None:
            made["reasoning_budget"] = thinking.budget
    if asked.top_logprobs is not None:
        made["top_logprobs"] = asked.top_logprobs
        name, value = ("logprobs", True) if in_chat else ("include", [LOGPROBS])
        made[name] = value
    return made


def _of_messages(asked: NeutralRequest) -> Json:
    named = {"type": "tool", "name": asked.named}
    choice = named if asked.named else {"type": CHOICES[asked.choice]}
    made: Json = {"tool_choice": {**choice, "disable_parallel_tool_use": not asked.parallel}}
    config: Json = {}
    for tool in asked.tools:
        renamed = {"parameters": "input_schema"}
        own = {renamed.get(name, name): value for name, value in tool.items()}
        made.setdefault("tools", []).append(own)
    if asked.format is not None:
        config["format"] = {"type": "json_schema", "schema": asked.format}
    if (thinking := asked.thinking) is not None:
        made["thinking"] = {"type": "adaptive" if thinking.on else "disabled"}
        if thinking.budget is not None:
            made["thinking"] = {"type": "enabled", "budget_tokens": thinking.budget}
        if thinking.effort is not None:
            config["effort"] = thinking.effort
    return made | ({"output_config": config} if config else {})


def _turn(api: Api, turn: Turn) -> Iterator[Json]:
    if isinstance(turn, Assistant):
        calls = (ask.CallTurn(_id(api, each.id), each.name, each.arguments) for each in turn.calls)
        made = _usual(api, ask.Assistant(turn.text, tuple(calls), turn.reasoning))
        spelled = made[0].get("tool_calls", made) if api == Api.CHAT else made
        functions = [each.get("function", each) for each in spelled if "content" not in each]
        for function, call in zip(functions, turn.calls, strict=api != Api.MESSAGES):
            function["arguments"] = json.dumps(call.arguments, ensure_ascii=False)
        if api == Api.MESSAGES and turn.reasoning:
            signature = signer(SEAL)(turn.reasoning)
            block = {"type": "thinking", "thinking": turn.reasoning, "signature": signature}
            made[0]["content"].insert(0, block)
    elif isinstance(turn, User):
        made = _usual(api, ask.User(""))
        made[0]["content"] = _content(api, turn)
    else:
        made = _usual(api, *(ask.ToolResult(_id(api, each.call_id), "") for each in turn))
        filled = made[0]["content"] if api == Api.MESSAGES else made
        for each, result in zip(filled, turn, strict=True):
            each["output" if api == Api.RESPONSES else "content"] = _content(api, result)
    yield from made


def _usual(api: Api, *turns: ask.Turn) -> list[Json]:
    made: list[Json] = (request(api, ask.Ask(turns)).body or {})[TURNS[api]]
    return made


def _id(api: Api, call_id: str) -> str:
    """The form in which the client got the id."""
    return call_id.replace("call_", "toolu_") if api == Api.MESSAGES else call_id


def _content(api: Api, turn: User | Result) -> str | list[Json]:
    if len(turn.texts) == 1 and not turn.image:
        return turn.texts[0]
    kind = "input_text" if api == Api.RESPONSES else "text"
    texts = [{"type": kind, "text": text} for text in turn.texts]
    return [*texts, IMAGES[api]] if turn.image else texts
