"""Fields, events and operations of OpenAI's Responses API."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from .case import Case, ok, refused
from .client import Body, Client, Reply

PATH = "/v1/responses"
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
TALK: Body = {"input": "Tell me a story.", "max_output_tokens": 24, "temperature": 0}
PARAMETERS = {
    "type": "object",
    "properties": {"room": {"enum": ["kitchen", "bedroom"]}, "on": {"type": "boolean"}},
    "required": ["room", "on"],
    "additionalProperties": False,
}
LIGHT = {"type": "function", "name": "set_light", "parameters": PARAMETERS, "strict": True}
DOOR = {**LIGHT, "name": "open_door"}
CALL: Body = {
    "input": "Light in the kitchen.",
    "max_output_tokens": 400,
    "tools": [LIGHT, DOOR],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "chat_template_kwargs": {"enable_thinking": False},
}
"""With several calls, or while it reasons, the random model would not end its turn."""
SEVERAL: Body = {**CALL, "parallel_tool_calls": True}
WRITE = {
    "type": "function",
    "name": "write",
    "parameters": {
        "type": "object",
        "properties": {"text": {"type": "string", "minLength": 2_000}},
        "required": ["text"],
    },
}
CUT: Body = {**CALL, "tools": [WRITE], "max_output_tokens": 60}
"""A call that the token limit cuts."""
HISTORY = [
    {"role": "user", "content": "Light in the kitchen."},
    {
        "type": "function_call",
        "call_id": "call_1",
        "name": "set_light",
        "arguments": '{"room": "kitchen", "on": true}',
    },
]
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "done"}
DATE = {"type": "grammar", "syntax": "regex", "definition": r"[0-9]{4}-[0-9]{2}-[0-9]{2}"}
SUM = {
    "type": "grammar",
    "syntax": "lark",
    "definition": 'start: NUMBER "+" NUMBER\nNUMBER: /[1-9]/',
}


def items(reply: Reply, kind: str) -> list[Body]:
    return [item for item in ok(reply).body["output"] if item["type"] == kind]


def calls(reply: Reply) -> list[Body]:
    """The calls that clients execute."""
    return [call for call in items(reply, "function_call") if call["status"] == "completed"]


def text(reply: Reply) -> str:
    return "".join(part["text"] for item in items(reply, "message") for part in item["content"])


def is_valid(call: Body) -> bool:
    try:
        jsonschema.validate(json.loads(call["arguments"]), PARAMETERS)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def prompt_tokens(reply: Reply) -> int:
    return int(ok(reply).body["usage"]["input_tokens"])


def echo(name: str, value: Any, **more: Any) -> Case:
    return Case(
        "repeated in the response",
        f"`{name}`",
        lambda client: ok(client.post({**TALK, **more, name: value})).body[name] == value,
    )


def longer_prompt(group: str, name: str, body: Body, than: Body = TALK) -> Case:
    """The field reaches the prompt."""
    return Case(
        group,
        name,
        lambda client: prompt_tokens(client.post(body)) > prompt_tokens(client.post(than)),
    )


def accepted(group: str, name: str, body: Body) -> Case:
    return Case(group, name, lambda client: ok(client.post(body)).status == 200)


def inputs() -> list[Case]:
    group = "input"
    part = [{"role": "user", "content": [{"type": "input_text", "text": "Tell me a story."}]}]
    thought = {
        "type": "reasoning",
        "summary": [],
        "content": [{"type": "reasoning_text", "text": "Hm"}],
    }
    return [
        accepted(group, "a text", TALK),
        accepted(group, "messages with parts", {**TALK, "input": part}),
        longer_prompt(
            group,
            "a `developer` message",
            {**TALK, "input": [{"role": "developer", "content": "Be brief."}, *part]},
        ),
        longer_prompt(group, "`instructions`", {**TALK, "instructions": "Be brief and kind."}),
        accepted(
            group, "a call and its result", {**TALK, "input": [*HISTORY, RESULT], "tools": [LIGHT]}
        ),
        accepted(
            group, "a `reasoning` item", {**TALK, "input": [part[0], thought, *HISTORY, RESULT]}
        ),
        refused(
            group,
            "an unknown type of item is refused",
            {**TALK, "input": [{"type": "nope"}]},
            "input[0]",
        ),
        refused(group, "a number is refused", {**TALK, "input": 5}, "input"),
        refused(
            group,
            "a result without its call is refused",
            {**TALK, "input": [RESULT]},
            "input[0]",
            "call_1",
        ),
    ]


def tools() -> list[Case]:
    group = "tools"

    def called(body: Body, test: Callable[[list[Body]], bool]) -> Callable[[Client], bool]:
        return lambda client: test(calls(client.post(body)))

    named = {"type": "function", "name": "open_door"}
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [named]}
    custom = {"type": "custom", "name": "when", "format": DATE}
    lark = {"type": "custom", "name": "add", "format": SUM}

    def matches(client: Client, tool: Body, pattern: str) -> bool:
        found = items(client.post({**CALL, "tools": [tool]}), "custom_tool_call")
        return bool(found) and all(re.fullmatch(pattern, call["input"]) for call in found)

    def cut(client: Client) -> bool:
        """A call that the token limit cuts is not dressed as a whole one."""
        reply = ok(client.post(CUT))
        return not calls(reply) and bool(reply.body["status"] == "incomplete")

    return [
        Case(
            group,
            "`required`: every call is valid",
            called(CALL, lambda c: bool(c) and all(map(is_valid, c))),
        ),
        Case(
            group,
            "a named function",
            called(
                {**CALL, "tool_choice": named}, lambda c: [x["name"] for x in c] == ["open_door"]
            ),
        ),
        Case(
            group,
            "`none`",
            called({**CALL, "tool_choice": "none", "max_output_tokens": 24}, lambda c: not c),
        ),
        Case(
            group,
            "`allowed_tools`",
            called(
                {**CALL, "tool_choice": allowed}, lambda c: {x["name"] for x in c} == {"open_door"}
            ),
        ),
        Case(
            group,
            "`parallel_tool_calls: false`",
            called({**CALL, "parallel_tool_calls": False}, lambda c: len(c) == 1),
        ),
        Case(group, "a call that is cut is `incomplete`", cut),
        Case(
            group,
            "custom tool with a regular expression",
            lambda client: matches(client, custom, DATE["definition"]),
        ),
        Case(
            group,
            "custom tool with a Lark grammar",
            lambda client: matches(client, lark, r"[1-9]\+[1-9]"),
        ),
        refused(
            group,
            "a `tool_choice` that is not offered is refused",
            {**CALL, "tool_choice": {"type": "function", "name": "x"}},
            "tool_choice",
        ),
        refused(
            group,
            "a schema that can't be enforced is refused",
            {
                **CALL,
                "tools": [
                    {
                        **LIGHT,
                        "parameters": {
                            "type": "object",
                            "properties": {"a": {"$ref": "http://x/y"}},
                            "required": ["a"],
                        },
                    }
                ],
            },
            "tools[0]",
        ),
        refused(
            group,
            "an unknown type of tool is refused",
            {**CALL, "tools": [{"type": "nope"}]},
            "tools[0]",
        ),
    ]


def formats() -> list[Case]:
    group = "text"
    schema = {"type": "json_schema", "name": "light", "schema": PARAMETERS, "strict": True}

    def valid(client: Client) -> bool:
        reply = client.post({**TALK, "max_output_tokens": 300, "text": {"format": schema}})
        jsonschema.validate(json.loads(text(reply)), PARAMETERS)
        return True

    def with_logprobs(client: Client) -> bool:
        asked = {"include": ["message.output_text.logprobs"], "top_logprobs": 2}
        message = items(client.post({**TALK, **asked}), "message")[0]
        return len(message["content"][0]["logprobs"][0]["top_logprobs"]) == 2

    def incomplete(client: Client) -> bool:
        body = ok(client.post({**TALK, "max_output_tokens": 16})).body
        reason = (body.get("incomplete_details") or {}).get("reason")
        return body["status"] == "incomplete" and reason == "max_output_tokens"

    return [
        Case(group, "`text.format` with a schema", valid),
        Case(group, "`include: message.output_text.logprobs`", with_logprobs),
        Case(group, "`max_output_tokens`: `incomplete_details`", incomplete),
        refused(
            group,
            "an unknown value of `include` is refused",
            {**TALK, "include": ["nope"]},
            "include",
        ),
    ]


def reasoning() -> list[Case]:
    group = "reasoning"
    base: Body = {**TALK, "max_output_tokens": 60, "reasoning": {"effort": "high"}}

    def in_parts(client: Client) -> bool:
        """With the fields that strict clients need."""
        found = items(client.post(base), "reasoning")
        return bool(found) and all(
            item["summary"] == [] and item["content"][0]["type"] == "reasoning_text"
            for item in found
        )

    def summary(client: Client) -> bool:
        found = items(
            client.post({**base, "reasoning": {"effort": "high", "summary": "auto"}}), "reasoning"
        )
        return bool(found) and all(item["summary"][0]["type"] == "summary_text" for item in found)

    def encrypted(client: Client) -> bool:
        asked: Body = {**base, "store": False, "include": ["reasoning.encrypted_content"]}
        found = items(client.post(asked), "reasoning")
        if not found or not found[0].get("encrypted_content"):
            return False
        again = [{"role": "user", "content": "Hi."}, *found, {"role": "user", "content": "Go on."}]
        return ok(client.post({**asked, "input": again})).status == 200

    return [
        Case(group, "item with `reasoning_text`", in_parts),
        Case(group, "`reasoning.summary`", summary),
        Case(group, "`include: reasoning.encrypted_content`, and back", encrypted),
    ]


def echoes() -> list[Case]:
    return [
        echo("temperature", 0.5),
        echo("top_p", 0.5),
        echo("metadata", {"a": "b"}),
        echo("instructions", "Be brief."),
        echo("max_output_tokens", 20),
        echo("max_tool_calls", 3),
        echo("parallel_tool_calls", False),
        echo("prompt_cache_key", "k"),
        echo("safety_identifier", "s"),
        echo("store", False),
        echo("tool_choice", "none", tools=[LIGHT]),
        echo("truncation", "disabled"),
        echo("user", "u"),
    ]


def state() -> list[Case]:
    group = "state"

    def stored(client: Client) -> str:
        return str(ok(client.post({**TALK, "store": True})).body["id"])

    def retrieved(client: Client) -> bool:
        reply = ok(client.post({**TALK, "store": True}))
        return bool(
            ok(client.call("GET", f"{PATH}/{reply.body['id']}")).body["output"]
            == reply.body["output"]
        )

    def deleted(client: Client) -> bool:
        path = f"{PATH}/{stored(client)}"
        return (
            ok(client.call("DELETE", path)).body["deleted"] is True
            and client.call("GET", path).status == 404
        )

    def listed(client: Client) -> bool:
        found = ok(client.call("GET", f"{PATH}/{stored(client)}/input_items?limit=1")).body
        return found["object"] == "list" and len(found["data"]) == 1

    def continued(client: Client) -> bool:
        more = {**TALK, "input": "Go on.", "previous_response_id": stored(client)}
        return (
            prompt_tokens(client.post(more))
            > prompt_tokens(client.post({**TALK, "input": "Go on."})) + 10
        )

    def unknown(client: Client) -> bool:
        return client.post({**TALK, "previous_response_id": "resp_0"}).status in (400, 404)

    def counted(client: Client) -> bool:
        count = ok(client.post({"input": TALK["input"]}, "/input_tokens")).body["input_tokens"]
        return bool(count == prompt_tokens(client.post(TALK)))

    return [
        Case(group, "`GET /v1/responses/{id}`", retrieved),
        Case(
            group,
            "`GET` of an unknown id is a 404",
            lambda client: client.call("GET", f"{PATH}/resp_{'0' * 32}").status == 404,
        ),
        Case(group, "`DELETE`", deleted),
        Case(group, "`input_items`", listed),
        Case(group, "`previous_response_id`", continued),
        Case(group, "an unknown `previous_response_id` is refused", unknown),
        Case(group, "`POST /v1/responses/input_tokens`, exact", counted),
    ]


EVENTS = {
    "text": (
        {**TALK, "chat_template_kwargs": {"enable_thinking": False}},
        (
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "incomplete",
        ),
    ),
    "call": (
        CALL,
        (
            "output_item.added",
            "function_call_arguments.delta",
            "function_call_arguments.done",
            "output_item.done",
            "completed",
        ),
    ),
    "reasoning": (
        {**TALK, "max_output_tokens": 60, "reasoning": {"effort": "high"}},
        ("output_item.added", "reasoning_text.delta"),
    ),
}


def events() -> list[Case]:
    group = "events"
    found: list[Case] = []
    for name, (body, types) in EVENTS.items():
        for kind in types:
            found.append(
                Case(
                    group,
                    f"{name}: `response.{kind}`",
                    lambda client, body=body, kind=kind: any(  # type: ignore[misc]
                        each.data["type"] == f"response.{kind}"
                        for each in ok(client.stream(body)).events
                    ),
                )
            )

    def numbered(client: Client) -> bool:
        sent = ok(client.stream(CALL)).events
        return [each.data["sequence_number"] for each in sent] == list(range(len(sent)))

    def named(client: Client) -> bool:
        return all(each.name == each.data["type"] for each in ok(client.stream(CALL)).events)

    def of_sdk(client: Client) -> bool:
        for each in ok(client.stream(CALL)).events:
            EVENT.validate_python(each.data)
        return True

    def same_items(client: Client) -> bool:
        sent = ok(client.stream(CALL)).events
        done = [e.data["item"] for e in sent if e.data["type"] == "response.output_item.done"]
        return bool(done) and sent[-1].data["response"]["output"] == done

    def cut(client: Client) -> bool:
        """No event says that a call ended that the token limit cut."""
        sent = ok(client.stream(CUT)).events
        ends = ("response.function_call_arguments.done", "response.output_item.done")
        ended = [e for e in sent if e.data["type"] in ends and "write" in json.dumps(e.data)]
        return not ended and bool(sent[-1].data["type"] == "response.incomplete")

    def body_of_sdk(client: Client) -> bool:
        Response.model_validate(ok(client.post(CALL)).body)
        return True

    return [
        *found,
        Case(group, "`sequence_number` from 0 without gaps", numbered),
        Case(group, "`event:` equals `type`", named),
        Case(group, "every event is one of the SDK's models", of_sdk),
        Case(group, "the last event has the items that were done", same_items),
        Case(group, "no end of a call that is cut", cut),
        Case(group, "the whole body is the SDK's model", body_of_sdk),
    ]


def errors() -> list[Case]:
    group = "errors"

    def wrong_model(client: Client) -> bool:
        reply = client.post({**TALK, "model": "nope"})
        return reply.status in (400, 404) and "message" in reply.body["error"]

    def background(client: Client) -> bool:
        reply = client.post({**TALK, "background": True})
        if reply.status == 200:
            return reply.body["status"] in ("queued", "in_progress")
        return "background" in reply.body["error"]["message"]

    def not_json(client: Client) -> bool:
        reply = client.raw(b'{"model": ')
        return reply.status == 400 and "message" in reply.body["error"]

    return [
        Case(group, "unknown model", wrong_model),
        Case(group, "a body that is not JSON", not_json),
        refused(group, '`temperature: "hot"`', {**TALK, "temperature": "hot"}, "temperature"),
        refused(
            group, "`max_output_tokens: -1`", {**TALK, "max_output_tokens": -1}, "max_output_tokens"
        ),
        Case(group, "`background: true`: served, or refused by name", background),
    ]


def cases() -> list[Case]:
    return [
        *inputs(),
        *tools(),
        *formats(),
        *reasoning(),
        *echoes(),
        *state(),
        *events(),
        *errors(),
    ]
