"""Fields, events and operations of Anthropic's Messages API."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
from anthropic.types import Message, RawMessageStreamEvent
from pydantic import TypeAdapter

from .case import Case, ok
from .client import Body, Client, Reply

PATH = "/v1/messages"
EVENT: TypeAdapter[Any] = TypeAdapter(RawMessageStreamEvent)
USER = {"role": "user", "content": "Tell me a story."}
TALK: Body = {"messages": [USER], "max_tokens": 24, "temperature": 0}
SCHEMA = {
    "type": "object",
    "properties": {"room": {"enum": ["kitchen", "bedroom"]}, "on": {"type": "boolean"}},
    "required": ["room", "on"],
    "additionalProperties": False,
}
LIGHT = {"name": "set_light", "description": "Sets a light.", "input_schema": SCHEMA}
DOOR = {**LIGHT, "name": "open_door"}
CALL: Body = {
    "messages": [{"role": "user", "content": "Light in the kitchen."}],
    "max_tokens": 400,
    "tools": [LIGHT, DOOR],
    "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
    "chat_template_kwargs": {"enable_thinking": False},
}
"""With several calls, or while it thinks, the random model would not end its turn."""
WRITE = {
    "name": "write",
    "input_schema": {
        "type": "object",
        "properties": {"text": {"type": "string", "minLength": 2_000}},
        "required": ["text"],
    },
}
CUT: Body = {**CALL, "tools": [WRITE], "max_tokens": 60}
"""A call that the token limit cuts."""
USE = {
    "type": "tool_use",
    "id": "toolu_1",
    "name": "set_light",
    "input": {"room": "kitchen", "on": True},
}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "done"}
LOOP = [CALL["messages"][0], {"role": "assistant", "content": [USE]}]
THINKING: Body = {
    **TALK,
    "max_tokens": 1200,
    "temperature": 1,
    "thinking": {"type": "enabled", "budget_tokens": 1024},
}


def blocks(reply: Reply, kind: str) -> list[Body]:
    return [block for block in ok(reply).body["content"] if block["type"] == kind]


def is_valid(block: Body) -> bool:
    try:
        jsonschema.validate(block["input"], SCHEMA)
    except jsonschema.ValidationError:
        return False
    return True


def tokens(reply: Reply) -> int:
    usage = ok(reply).body["usage"]
    return int(usage["input_tokens"]) + int(usage.get("cache_read_input_tokens") or 0)


def accepted(group: str, name: str, body: Body) -> Case:
    return Case(group, name, lambda client: ok(client.post(body)).status == 200)


def refused(
    group: str, name: str, body: Body, path: str, kind: str = "invalid_request_error"
) -> Case:
    """A request that must be an error of the type `kind` that names `path`."""

    def check(client: Client) -> bool:
        reply = client.post(body)
        if reply.status == 200 or not is_error(reply, kind):
            return False
        error = reply.body["error"]
        return path in f"{error.get('param')} {error['message']}"

    return Case(group, name, check)


def is_error(reply: Reply, kind: str) -> bool:
    """Whether the body is an error of the type in the API's form."""
    return reply.body.get("type") == "error" and reply.body["error"]["type"] == kind


def requests() -> list[Case]:
    group = "messages"
    text = [{"type": "text", "text": "Tell me a story.", "cache_control": {"type": "ephemeral"}}]
    failed = {**RESULT, "is_error": True, "content": [{"type": "text", "text": "no"}]}

    def longer(body: Body) -> Callable[[Client], bool]:
        return lambda client: tokens(client.post(body)) > tokens(client.post(TALK))

    return [
        accepted(
            group,
            "blocks of text with `cache_control`",
            {**TALK, "messages": [{"role": "user", "content": text}]},
        ),
        Case(group, "`system` as a text", longer({**TALK, "system": "Be brief and kind."})),
        Case(
            group,
            "`system` as blocks",
            longer({**TALK, "system": [{"type": "text", "text": "Be brief."}]}),
        ),
        accepted(
            group,
            "`tool_use` and `tool_result`",
            {**TALK, "messages": [*LOOP, {"role": "user", "content": [RESULT]}], "tools": [LIGHT]},
        ),
        accepted(
            group,
            "`tool_result` with `is_error` and blocks",
            {**TALK, "messages": [*LOOP, {"role": "user", "content": [failed]}], "tools": [LIGHT]},
        ),
        refused(
            group,
            "a result without its call is refused",
            {**TALK, "messages": [USER, {"role": "user", "content": [RESULT]}]},
            "messages",
        ),
        refused(group, "no messages are refused", {**TALK, "messages": []}, "messages"),
        refused(group, "a missing `max_tokens` is refused", {"messages": [USER]}, "max_tokens"),
    ]


def tools() -> list[Case]:
    group = "tools"

    def called(body: Body, test: Callable[[list[Body]], bool]) -> Callable[[Client], bool]:
        def check(client: Client) -> bool:
            reply = client.post({**CALL, **body})
            return test(blocks(reply, "tool_use")) and reply.body["stop_reason"] == "tool_use"

        return check

    def none(client: Client) -> bool:
        return not blocks(
            client.post({**CALL, "max_tokens": 24, "tool_choice": {"type": "none"}}), "tool_use"
        )

    def cut(client: Client) -> bool:
        """A call that the token limit cuts is not dressed as a whole one."""
        reply = ok(client.post(CUT))
        return reply.body["stop_reason"] == "max_tokens" and not blocks(reply, "tool_use")

    single = {"type": "any", "disable_parallel_tool_use": True}
    return [
        Case(
            group,
            "`any`: every call is valid",
            called({}, lambda c: bool(c) and all(map(is_valid, c))),
        ),
        Case(
            group,
            "`tool`: `stop_reason` is `tool_use`",
            called(
                {"tool_choice": {"type": "tool", "name": "open_door"}},
                lambda c: [x["name"] for x in c] == ["open_door"],
            ),
        ),
        Case(group, "`none`", none),
        Case(
            group,
            "`disable_parallel_tool_use`",
            called({"tool_choice": single}, lambda c: len(c) == 1),
        ),
        Case(group, "a call that is cut is not returned as a whole one", cut),
        Case(
            group,
            "ids begin with `toolu_`",
            called({}, lambda c: all(x["id"].startswith("toolu_") for x in c)),
        ),
        refused(
            group,
            "an unknown type of `tool_choice` is refused",
            {**CALL, "tool_choice": {"type": "nope"}},
            "tool_choice",
        ),
        refused(
            group,
            "a tool without `input_schema` is refused",
            {**CALL, "tools": [{"name": "x"}]},
            "input_schema",
        ),
        refused(
            group,
            "a schema that can't be enforced is refused",
            {
                **CALL,
                "tools": [
                    {
                        **LIGHT,
                        "input_schema": {
                            "type": "object",
                            "properties": {"a": {"$ref": "http://x/y"}},
                            "required": ["a"],
                        },
                    }
                ],
            },
            "tools",
        ),
    ]


def answers() -> list[Case]:
    group = "answers"

    def stop_sequence(client: Client) -> bool:
        free = ok(client.post({**TALK, "max_tokens": 40})).body["content"][-1]["text"]
        word = free[len(free) // 2 :][:2]
        body = ok(client.post({**TALK, "max_tokens": 40, "stop_sequences": [word]})).body
        return bool(body["stop_reason"] == "stop_sequence" and body["stop_sequence"] == word)

    def format(client: Client) -> bool:
        asked = {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}
        reply = client.post({**TALK, "max_tokens": 300, **asked})
        jsonschema.validate(json.loads(blocks(reply, "text")[-1]["text"]), SCHEMA)
        return True

    def counted(client: Client) -> bool:
        count = ok(client.post({"messages": [USER]}, "/count_tokens")).body["input_tokens"]
        return bool(count == tokens(client.post(TALK)))

    def limited(client: Client) -> bool:
        return bool(ok(client.post({**TALK, "max_tokens": 5})).body["stop_reason"] == "max_tokens")

    return [
        Case(group, "`max_tokens`: `stop_reason`", limited),
        Case(group, "`stop_sequences`: `stop_reason` and the sequence", stop_sequence),
        Case(group, "`output_config.format`", format),
        Case(
            group,
            "ids begin with `msg_`",
            lambda client: ok(client.post(TALK)).body["id"].startswith("msg_"),
        ),
        Case(group, "`POST /v1/messages/count_tokens`, exact", counted),
        Case(
            group,
            "the whole body is the SDK's model",
            lambda client: bool(Message.model_validate(ok(client.post(CALL)).body)),
        ),
    ]


def thinking() -> list[Case]:
    group = "thinking"

    def signed(client: Client) -> bool:
        found = blocks(client.post(THINKING), "thinking")
        return bool(found) and all(block["signature"] for block in found)

    def back(client: Client) -> bool:
        found = blocks(client.post(THINKING), "thinking")
        again = [
            USER,
            {"role": "assistant", "content": [*found, {"type": "text", "text": "Ok."}]},
            USER,
        ]
        return bool(found) and ok(client.post({**THINKING, "messages": again})).status == 200

    def changed(client: Client) -> bool:
        found = blocks(client.post(THINKING), "thinking")
        block = {**found[0], "thinking": f"{found[0]['thinking']} no"}
        content = [block, {"type": "text", "text": "Ok."}]
        again = [USER, {"role": "assistant", "content": content}, USER]
        return is_error(client.post({**THINKING, "messages": again}), "invalid_request_error")

    return [
        Case(group, "blocks with a signature", signed),
        Case(group, "blocks are accepted back", back),
        Case(group, "a block whose text was changed is refused", changed),
        Case(
            group,
            "no thinking unasked",
            lambda client: not blocks(client.post({**TALK, "max_tokens": 60}), "thinking"),
        ),
    ]


def events() -> list[Case]:
    group = "events"

    def sent(body: Body) -> Callable[[Client], list[Body]]:
        return lambda client: [each.data for each in ok(client.stream(body)).events]

    def has(kind: str, body: Body = CALL) -> Case:
        return Case(
            group,
            f"`{kind}`",
            lambda client: any(
                kind in (each["type"], each.get("delta", {}).get("type"))
                for each in sent(body)(client)
            ),
        )

    def input_tokens(client: Client) -> bool:
        first = sent(TALK)(client)[0]
        usage = first["message"]["usage"]
        return int(usage["input_tokens"]) + int(usage.get("cache_read_input_tokens") or 0) > 0

    def contiguous(client: Client) -> bool:
        starts = [e["index"] for e in sent(CALL)(client) if e["type"] == "content_block_start"]
        stops = [e["index"] for e in sent(CALL)(client) if e["type"] == "content_block_stop"]
        return bool(starts) and starts == stops == list(range(len(starts)))

    def inputs(client: Client) -> bool:
        parts: dict[int, str] = {}
        for each in sent(CALL)(client):
            if each.get("delta", {}).get("type") == "input_json_delta":
                parts[each["index"]] = parts.get(each["index"], "") + each["delta"]["partial_json"]
        return bool(parts) and all(is_valid({"input": json.loads(part)}) for part in parts.values())

    def of_sdk(client: Client) -> bool:
        for each in sent(CALL)(client):
            if each["type"] != "ping":
                EVENT.validate_python(each)
        return True

    def cut(client: Client) -> bool:
        found = sent(CUT)(client)
        reason = [e["delta"]["stop_reason"] for e in found if e["type"] == "message_delta"]
        return reason == ["max_tokens"]

    kinds = (
        "message_start",
        "content_block_start",
        "input_json_delta",
        "content_block_stop",
        "message_delta",
        "message_stop",
    )
    return [
        *(has(kind) for kind in kinds),
        has("text_delta", TALK),
        has("thinking_delta", THINKING),
        has("signature_delta", THINKING),
        Case(group, "`message_start` has the input tokens", input_tokens),
        Case(group, "contiguous indices", contiguous),
        Case(group, "inputs are valid when joined", inputs),
        Case(group, "every event is one of the SDK's models", of_sdk),
        Case(group, "a cut call ends with `max_tokens`", cut),
        Case(
            group,
            "`event:` equals `type`",
            lambda client: all(e.name == e.data["type"] for e in ok(client.stream(CALL)).events),
        ),
    ]


def errors() -> list[Case]:
    group = "errors"

    def wrong_key(client: Client) -> bool:
        reply = client.post(
            TALK, headers={"x-api-key": "sk-wrong", "authorization": "Bearer sk-wrong"}
        )
        return reply.status == 401 and is_error(reply, "authentication_error")

    def wrong_model(client: Client) -> bool:
        reply = client.post({**TALK, "model": "nope"})
        return reply.status == 404 and is_error(reply, "not_found_error")

    def thread(client: Client) -> bool:
        """The SDK's tool runner falls back on this error."""
        details = client.post({**TALK, "thread": {}}).body["error"].get("details") or {}
        return bool(details.get("error_code") == "thread_unsupported_request")

    def models(client: Client) -> bool:
        reply = ok(client.call("GET", "/v1/models", {"anthropic-version": "2023-06-01"}))
        return reply.body["data"][0]["type"] == "model" and "has_more" in reply.body

    def not_json(client: Client) -> bool:
        return is_error(client.raw(b'{"model": '), "invalid_request_error")

    return [
        Case(group, "a wrong key is an `authentication_error`", wrong_key),
        Case(group, "an unknown model is a `not_found_error`", wrong_model),
        Case(group, "a body that is not JSON is an `invalid_request_error`", not_json),
        refused(group, '`temperature: "hot"`', {**TALK, "temperature": "hot"}, "temperature"),
        Case(group, "`thread`: the error that the SDK falls back on", thread),
        Case(group, "`GET /v1/models` in Anthropic's form", models),
    ]


def cases() -> list[Case]:
    return [*requests(), *tools(), *answers(), *thinking(), *events(), *errors()]
