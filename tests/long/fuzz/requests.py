"""Random requests for the three APIs, made of requests in no API's form. Most are valid, and some
have something that is or may be invalid."""

from collections.abc import Callable
from random import Random
from typing import Any, Literal

from tests.long.fuzz.checks import Request, spoilt, values_of
from tests.long.judgement import INPUT
from tests.support.apis.neutral_bodies import (
    Assistant,
    Call,
    NeutralRequest,
    Result,
    Thinking,
    Turn,
    User,
    bodies,
)
from toolgate_proxy.api.responses.surface import INCLUDES
from toolgate_proxy.api.shared import parameter
from toolgate_verify.terms import Api

TABLES = {
    Api.CHAT: parameter.CHAT_TABLE,
    Api.RESPONSES: parameter.RESPONSES_TABLE,
    Api.MESSAGES: parameter.MESSAGES_TABLE,
}
VALUES = {api: values_of(table.values()) for api, table in TABLES.items()}
NAMES = {api: {*table} for api, table in TABLES.items()}
SURFACES = {Api.CHAT: "chat completions", Api.RESPONSES: "responses", Api.MESSAGES: "messages"}
WORDS = (
    *("the", "weather", "in", "Rome", "tell", "me", "set", "a", "name", "now", "and", "why"),
    *("北京", "é", "🙂", "<tool_call>", "</think>", "\\", '"'),
)
MAX_TOKENS = (1, 2, 5, 12, 20, 30, 45, 64, 100, 180, 300)
Json = dict[str, Any]


def make_request(api: Api, rng: Random, model: str, bias: dict[str, float] | None) -> Request:
    made = bodies(_neutral(api, rng, bias))
    body, meaning = made[SURFACES[api]] | {"model": model}, made[SURFACES[Api.CHAT]]
    OWN[api](rng, body, meaning)
    return spoilt(rng, VALUES[api], body, body if api == Api.CHAT else meaning)


def _neutral(api: Api, rng: Random, bias: dict[str, float] | None) -> NeutralRequest:
    tools = tuple(
        {"name": f"tool_{at}", "description": text(rng), "parameters": _object(rng, 1)}
        for at in range(rng.choice((0, 1, 1, 2, 3, 5)))
    )
    kind = rng.choice(("none", "auto", "auto", "required", "required", "named", "allowed"))
    allowed = bool(tools) and kind == "allowed" and api != Api.MESSAGES
    choice: Literal["none", "auto", "required"] = "auto"
    if tools and kind in ("none", "required"):
        choice = "none" if kind == "none" else "required"
    elif allowed:
        choice = rng.choice(("auto", "required"))
    max_tokens = rng.choice(MAX_TOKENS)
    return NeutralRequest(
        turns=_turns(rng),
        max_tokens=max_tokens,
        system=text(rng) if rng.random() < 0.4 else "",
        tools=tools,
        choice=choice,
        named="tool_0" if tools and kind == "named" else None,
        allowed=("tool_0",) if allowed else (),
        parallel=rng.random() < 0.8,
        format=_object(rng, 1) if rng.random() < 0.1 else None,
        thinking=rng.choice((None, None, *THINKING)),
        stop=rng.choice((("a",), ("e ", "th"), ("\n", "}", "。"), (" ",), *[()] * 16)),
        top_logprobs=rng.choice((0, 1, 3, *[None] * 12)) if api != Api.MESSAGES else None,
        shared=_shared(rng, api, max_tokens, bias),
    )


THINKING = (
    Thinking(on=False),
    Thinking(on=False),
    Thinking(on=True),
    Thinking(on=True, effort="low"),
    Thinking(on=True, effort="high"),
    Thinking(on=True, budget=1),
    Thinking(on=True, budget=50),
)


def _shared(rng: Random, api: Api, max_tokens: int, bias: dict[str, float] | None) -> Json:
    """Parameters that have one form in all APIs, as far as this one has them."""
    drawn: Json = {"temperature": rng.choice((0, 0.3, 1.0, 1.0, 1.7)), "stream": rng.random() < 0.5}
    for name, values in VALUES[Api.CHAT].sampling.items():
        if rng.random() < 0.15:
            drawn[name] = rng.choice(values)
    for name, value in (
        ("stop_token_ids", rng.sample(range(300, 6000), 40)),
        ("min_tokens", rng.randint(1, min(20, max_tokens))),
        ("bad_words", rng.sample(["the", "a", "weather", "é"], 2)),
        ("return_token_ids", True),
        ("include_reasoning", False),
    ):
        if rng.random() < 0.1:
            drawn[name] = value
    if rng.random() < 0.05:
        drawn["ignore_eos"] = True
    if bias is not None and rng.random() < 0.7:
        drawn["logit_bias"] = bias
    return {name: value for name, value in drawn.items() if name in NAMES[api]}


def _turns(rng: Random) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    for at in range(rng.choice((0, 0, 0, 1, 2))):
        calls = [
            Call(f"call_{at}{number:023}", "past", rng.choice(({"city": "Rome"}, {})))
            for number in range(rng.randint(1, 2))
        ]
        results = [Result(call.id, (text(rng),) * rng.choice((1, 1, 2))) for call in calls]
        said = text(rng) if rng.random() < 0.3 else ""
        thought = text(rng) if rng.random() < 0.2 else ""
        turns += [User((text(rng),)), Assistant(thought, said, tuple(calls))]
        turns.append(tuple(rng.sample(results, len(results))))
    return (*turns, User((text(rng),) * rng.choice((1, 2))))


def text(rng: Random) -> str:
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 12)))


def schema(rng: Random, depth: int = 0) -> Json:
    """A random JSON Schema that at least one engine supports."""
    kinds = ["string", "enum", "integer", "number", "boolean", "short", "nullable"]
    kind = rng.choice(kinds if depth > 2 else [*kinds, "array", "object", "object"])
    if kind == "object":
        return _object(rng, depth)
    if kind == "array":
        least = rng.randint(0, 2)
        items = schema(rng, depth + 1)
        return {"type": "array", "items": items, "minItems": least, "maxItems": least + 2}
    plain: dict[str, Json] = {
        "enum": {"type": "string", "enum": rng.sample(["a", "bc", "é", "celsius", "x y"], 3)},
        "integer": {"type": "integer", "minimum": -3, "maximum": rng.choice([5, 1000])},
        "short": {"type": "string", "minLength": 2, "maxLength": rng.choice([3, 12])},
        "nullable": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    }
    return plain.get(kind, {"type": kind})


def _object(rng: Random, depth: int) -> Json:
    names = rng.sample(["city", "unit", "a", "tags", "é", "long_name_of_it"], rng.randint(1, 4))
    return {
        "type": "object",
        "properties": {name: schema(rng, depth + 1) for name in names},
        "required": [name for name in names if rng.random() < 0.6],
        "additionalProperties": False,
    }


# --- what only one API has; the meaning changes with it ---


def _some(rng: Random, target: Json, chance: float, **members: Any) -> None:
    """Add each member with this chance."""
    target |= {name: value for name, value in members.items() if rng.random() < chance}


def _own_chat(rng: Random, body: Json, _: Json) -> None:
    if body["messages"][0]["role"] == "system" and rng.random() < 0.5:
        body["messages"][0]["role"] = "developer"
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = rng.choice(('{"city": "Rome"}', {"city": "Rome"}, ""))
    if body.get("enable_thinking") is False and rng.random() < 0.7:
        del body["enable_thinking"]
        body["reasoning_effort"] = "none"
    _some(rng, body, 0.2, n=rng.choice((1, 2, 3)))
    if "response_format" not in body:
        _some(rng, body, 0.1, response_format={"type": "json_object"})
    if body["stream"]:
        _some(rng, body, 0.5, stream_options={"include_usage": True})


def _own_responses(rng: Random, body: Json, meaning: Json) -> None:
    items = body["input"]
    for at, item in enumerate(items):
        if item.get("type") == "reasoning" and rng.random() < 0.5:
            thought = item["content"][0]["text"]
            item |= {"id": f"rs_{at}", "summary": [{"type": "summary_text", "text": thought}]}
            del item["content"]
        elif item.get("type") == "function_call" and rng.random() < 0.2:
            items[at] = {"type": "custom_tool_call", "name": "past", "input": text(rng)}
            items[at]["call_id"] = item["call_id"]
    if "instructions" in body and rng.random() < 0.5:
        role = rng.choice(("system", "developer"))
        items.insert(0, {"role": role, "content": body.pop("instructions")})
    if len(items) == 1 and isinstance(items[0]["content"], str) and rng.random() < 0.5:
        body["input"] = items[0]["content"]
    if "tools" in body:
        _own_tools(rng, body["tools"], meaning["tools"])
    _some(rng, body.setdefault("reasoning", {}), 0.3, summary=rng.choice(("auto", "detailed")))
    if "text" not in body:
        forms = ({"type": "json_object"}, {"type": "text"})
        _some(rng, body, 0.2, text={"format": rng.choice(forms), "verbosity": "low"})
        if body.get("text", {}).get("format") == forms[0]:
            meaning["response_format"] = forms[0]
    include = [*body.get("include", ()), rng.choice(INCLUDES[1:])]
    _some(rng, body, 0.2, include=include, metadata={"a": "b"}, truncation="disabled")
    _some(rng, body, 0.5, store=rng.random() < 0.5)
    if body["stream"]:
        _some(rng, body, 0.2, stream_options={"include_obfuscation": False})


def _own_tools(rng: Random, tools: list[Json], meaning: list[Json]) -> None:
    first = dict(tools[0])
    if rng.random() < 0.15:
        value = {"type": "object", "properties": {INPUT: {"type": "string"}}, "required": [INPUT]}
        tools.append({"type": "custom", "name": "free", "description": text(rng)})
        meaning.append({"function": {"name": "free", "parameters": value}})
    if rng.random() < 0.15:
        inner = {**first, "name": "deep"}
        tools.append({"type": "namespace", "name": "ns", "description": "n", "tools": [inner]})
        meaning.append({"function": {"name": "ns.deep", "parameters": first["parameters"]}})
    if rng.random() < 0.15:
        hosted = {"type": rng.choice(("web_search", "image_generation"))}
        tools.insert(rng.randint(0, len(tools)), hosted)


def _own_messages(rng: Random, body: Json, meaning: Json) -> None:
    cached = {"cache_control": {"type": "ephemeral"}}
    if "system" in body:
        block = {"type": "text", "text": body["system"], **cached}
        body["system"] = rng.choice((body["system"], [block], [block, block]))
    for message in body["messages"]:
        if message["role"] == "user" and isinstance(message["content"], str):
            message["content"] = [{"type": "text", "text": message["content"]}]
        _own_blocks(rng, message)
    _some(rng, body, 0.05, messages=[*body["messages"], {"role": "system", "content": text(rng)}])
    if rng.random() < 0.04:
        # Templates reject a message to be continued that has marks of reasoning or of calls.
        begun = {"role": "assistant", "content": rng.choice(("The weather", "I {", "é"))}
        body["messages"] = [*body["messages"], begun]
    for tool in body.get("tools", ()):
        _some(rng, tool, 0.2, type="custom", eager_input_streaming=rng.random() < 0.8)
        _some(rng, tool, 0.1, input_examples=[{"a": 1}], **cached)
    if body["tool_choice"]["type"] == "none" or "tools" not in body:
        del body["tool_choice"]["disable_parallel_tool_use"]
    if "tools" not in body:
        del body["tool_choice"]
    form = body.get("output_config", {}).get("format")
    if form and rng.random() < 0.3:
        body["output_format"] = form
        del body["output_config"]
    elif not form and rng.random() < 0.1:
        body["structured_outputs"] = {"json_object": True}
        meaning["response_format"] = {"type": "json_object"}
    if body.get("thinking", {}).get("type") in ("enabled", "adaptive"):
        _some(rng, body["thinking"], 0.3, display=rng.choice(("omitted", "summarized")))
    edit = {"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 1}}
    edit |= {"trigger": {"type": "tool_uses", "value": rng.randint(0, 3)}}
    edits = {"edits": [{"type": "clear_thinking_20251015"}, edit]}
    own = {"metadata": {"user_id": "u"}, "service_tier": "auto", "context_management": edits}
    _some(rng, body, 0.1, **cached, **own)


def _own_blocks(rng: Random, message: Json) -> None:
    blocks = message["content"]
    if message["role"] == "assistant":
        if rng.random() < 0.1:
            blocks.insert(0, {"type": "redacted_thinking", "data": "abc"})
        for block in blocks:
            if block["type"] == "thinking" and rng.random() < 0.5:
                block["signature"] = "of another model"
        return
    for block in blocks:
        if block["type"] == "tool_result":
            _some(rng, block, 0.2, is_error=rng.random() < 0.5)
            if rng.random() < 0.1:
                del block["content"]
    if rng.random() < 0.1:
        source = {"type": "text", "media_type": "text/plain", "data": text(rng)}
        blocks.append({"type": "document", "source": source, "title": text(rng)})
    if rng.random() < 0.05:
        inner = [{"type": "text", "text": text(rng)}]
        found = {"type": "search_result", "source": "s", "title": "t", "content": inner}
        blocks.append(found)


OWN: dict[Api, Callable[[Random, Json, Json], None]] = {
    Api.CHAT: _own_chat,
    Api.RESPONSES: _own_responses,
    Api.MESSAGES: _own_messages,
}
