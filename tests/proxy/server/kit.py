"""Requests to the gateway's own route and its answers, in one form for the three APIs."""

import json
from collections import defaultdict
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from openai.lib.streaming._deltas import accumulate_delta
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.support.apis import messages_api, responses_api
from tests.support.apis.read_responses import read_events
from tests.support.litellm.own_route import MASTER, PATHS, Response, body_of
from tests.support.servers.script import Script
from toolgate_proxy.server.request_scope import own_headers

Json = dict[str, Any]
APIS = pytest.mark.parametrize("api", list(PATHS))
STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
HI = {"role": "user", "content": "hi"}
MORE = {"role": "user", "content": "And?"}
CONVERSATION = {"chat": "messages", "responses": "input", "messages": "messages"}
"""The member of a request that has the conversation."""
RANDOM = ("id", "tool_use_id", "tool_call_id", "call_id", "item_id", "index", "created",
          "created_at", "completed_at", "signature", "encrypted_content", "encrypted_index",
          "approval_request_id", "retrieved_at")  # fmt: skip
"""Members that are others in each response."""
ALWAYS = {"type": "object", "properties": {}}
REFUSALS = yaml.safe_load(Path(__file__).with_name("refusals.yaml").read_text())


def function(api, name, schema=ALWAYS, **more):
    """A tool of the client. `more`: its description, and other members."""
    if api == "messages":
        return {"name": name, "input_schema": schema, **more}
    if api == "responses":
        return {"type": "function", "name": name, "parameters": schema, **more}
    inner = {"name": name, "parameters": schema}
    inner |= {"description": more.pop("description")} if "description" in more else {}
    return {"type": "function", "function": inner, **more}


def required(api):
    return {"type": "any"} if api == "messages" else "required"


class Ran(NamedTuple):
    """A call that the gateway ran."""

    name: str
    arguments: Any
    result: str
    failed: bool


@dataclass
class Reply:
    """A response. `body`: the whole one, which a stream adds up to; empty if there is none."""

    api: str
    response: Response
    body: Json = field(default_factory=dict)

    @property
    def status(self):
        return self.response.status

    @property
    def own(self):
        return own_headers(self.response.context)

    @cached_property
    def error(self):
        """The error of a refusal, or of the last event."""
        last = self.response.json if self.status != 200 else self.response.events[-1]
        return last.get("response", last)["error"]

    @property
    def refusal(self):
        return self.status, self.error.get("param")

    @property
    def failure(self):
        return self.status, self.error.get("code")

    @cached_property
    def parts(self):
        """The items or blocks; the message of chat completions."""
        assert self.status == 200, self.response.bodies
        if self.api == "chat":
            return [self.body["choices"][0]["message"]]
        return self.body["output" if self.api == "responses" else "content"]

    @property
    def kinds(self):
        return [part["type"] for part in self.parts]

    @property
    def turn(self):
        """The response in the conversation of the next request."""
        return [{"role": "assistant", "content": self.parts}] * (self.api == "messages") or [
            *self.parts
        ]

    @property
    def text(self):
        if self.api == "chat":
            return self.parts[0].get("content") or ""
        said = {"message": _said, "text": lambda part: part["text"]}
        return "".join(said[each["type"]](each) for each in self.parts if each["type"] in said)

    @property
    def calls(self):
        """The calls of tools of the client, each with its `id`, `name` and `arguments`."""
        if self.api == "chat":
            calls = self.parts[0].get("tool_calls") or ()
            made = [{"call_id": each["id"], **each["function"]} for each in calls]
        else:
            made = [part for part in self.parts if part["type"] in ("function_call", "tool_use")]
        return [
            {
                "id": each.get("call_id") or each["id"],
                "name": each["name"],
                "arguments": each["input"] if "input" in each else json.loads(each["arguments"]),
            }
            for each in made
        ]

    @property
    def named(self):
        """The calls of tools of the client: their names and arguments."""
        return [(each["name"], each["arguments"]) for each in self.calls]

    @property
    def ran(self):
        """The calls of tools of MCP servers."""
        if self.api == "chat":
            given = self.parts[0].get("provider_specific_fields") or {}
            made, done = given.get("mcp_tool_calls", []), given.get("mcp_call_results", [])
            assert [each["id"] for each in made] == [each["tool_call_id"] for each in done]
            calls = [
                (each["function"], result["result"], result["result"].startswith("Error"))
                for each, result in zip(made, done, strict=True)
            ]
        elif self.api == "responses":
            made = [part for part in self.parts if part["type"] == "mcp_call"]
            calls = [(e, e["output"] or e["error"], e["status"] == "failed") for e in made]
        else:
            made = [part for part in self.parts if part["type"] == "mcp_tool_use"]
            found = {each["tool_use_id"]: each for each in self.parts if "tool_use_id" in each}
            done = [found[each["id"]] for each in made]
            texts = [(each["content"][0]["text"], each["is_error"]) for each in done]
            calls = [
                ({"name": each["name"], "arguments": json.dumps(each["input"])}, *text)
                for each, text in zip(made, texts, strict=True)
            ]
        return [Ran(e["name"], json.loads(e["arguments"]), *rest) for e, *rest in calls]

    @property
    def listed(self):
        """The names of the tools of MCP servers that the response lists."""
        if self.api == "chat":
            given = self.parts[0].get("provider_specific_fields") or {}
            tools = [each["function"] for each in given.get("mcp_list_tools", ())]
        else:
            lists = [each for each in self.parts if each["type"] == "mcp_list_tools"]
            tools = [tool for each in lists for tool in each["tools"]]
        return [tool["name"] for tool in tools]

    @property
    def end(self):
        if self.api == "chat":
            return str(self.body["choices"][0]["finish_reason"])
        return str(self.body["status" if self.api == "responses" else "stop_reason"])


def result(api, call_id, content="done"):
    """The result of a call of the client, in the conversation."""
    if api == "chat":
        return {"role": "tool", "tool_call_id": call_id, "content": content}
    if api == "responses":
        return {"type": "function_call_output", "call_id": call_id, "output": content}
    block = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return {"role": "user", "content": [block]}


def results(api, reply):
    """The results of all calls of the client."""
    made = [result(api, each["id"]) for each in reply.calls]
    if api != "messages" or not made:
        return made
    return [{"role": "user", "content": [block for each in made for block in each["content"]]}]


async def ask(
    gateway, api, *turns, said="go", history=None, key=MASTER, headers=None, path=None, **params
):
    """`turns`: what the backend answers. `history`: the conversation instead of `said`."""
    backend = gateway.backend
    backend.turns = [each if isinstance(each, Script) else Script((each,)) for each in turns]
    more = {"max_tokens": 2000} if api == "messages" else {}
    if params.get("stream") and api == "chat":
        more = {"stream_options": {"include_usage": True}}
    body = body_of(api, said, **{**more, **params})
    if history is not None:
        body[CONVERSATION[api]] = [*history]
    sent = [(n.encode(), v.encode()) for n, v in (headers or {}).items()]
    response = await gateway.ask(body, path=path or PATHS[api], key=key, headers=sent)
    return read(api, response)


def read(api, response):
    """Check that a response keeps to the rules of its API."""
    if response.status != 200:
        return Reply(api, response)
    if response.headers[b"content-type"] != b"application/json":
        return Reply(api, response, _body_of_stream(api, response))
    body = response.json
    if body.get("object") == "response":
        known = body["tool_choice"] != {"type": "tool_search"}  # which OpenAI's model lacks
        responses_api.check_response(body if known else {**body, "tool_choice": "auto"})
    elif body.get("type") == "message":
        messages_api.check_message(body, beta=True)
    elif body.get("object") == "chat.completion":
        ChatCompletion.model_validate_json(json.dumps(body), strict=True)
    return Reply(api, response, body)


def _body_of_stream(api, response):
    data = b"".join(response.bodies)
    if api == "chat":
        return _completion(response.events)
    events = read_events(data)
    last = events[-1]
    if last["type"] in ("error", "response.failed"):
        return {}
    if api == "messages":
        return messages_api.accumulated(events, beta=True)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"] for event in events[:2]] == ["response.created", "response.in_progress"]
    begun, done, texts = set(), {}, defaultdict(str)
    for event in events:
        responses_api.check_event(event)
        if event["type"] == "response.output_item.added":
            begun.add(event["output_index"])
        elif event["type"] == "response.output_item.done":
            assert event["output_index"] in begun
            done[event["output_index"]] = event["item"]
        elif event["type"].endswith(("arguments.delta", "output_text.delta")):
            texts[event["item_id"]] += event["delta"]
    body = last["response"]
    for at, item in enumerate(body["output"]):
        assert done.get(at) == item or item["status"] == "incomplete"
        if item["type"] in ("message", "function_call", "mcp_call"):
            assert texts[item["id"]] == (item.get("arguments") or _said(item))
    return body


def _said(item):
    return "".join(part.get("text", "") for part in item.get("content") or ())


def _completion(chunks):
    choices = {}
    body = {}
    for chunk in chunks:
        if "error" in chunk:
            return {}
        ChatCompletionChunk.model_validate_json(json.dumps(chunk), strict=True)
        body |= {"usage": chunk.get("usage")}
        for choice in chunk["choices"]:
            made = choices.setdefault(choice["index"], {"message": {}})
            accumulate_delta(made["message"], choice["delta"])
            made["finish_reason"] = choice["finish_reason"]
    body["choices"] = [choices[at] for at in sorted(choices)]
    return json.loads(json.dumps(body))


def comparable(value):
    """The value without what is null, and without members that are others in each response."""
    if isinstance(value, dict):
        return {
            name: comparable(each)
            for name, each in value.items()
            if name not in RANDOM and each is not None
        }
    return [comparable(each) for each in value] if isinstance(value, list) else value


async def same(gateway, api, *turns, **params):
    """Ask twice. The stream has what the whole response has, which is returned."""
    streamed = await ask(gateway, api, *turns, stream=True, **params)
    assert streamed.status == 200, streamed.response.bodies
    assert not gateway.backend.turns
    gateway.backend.requests.clear()
    whole = await ask(gateway, api, *turns, **params)
    assert whole.status == 200, whole.response.bodies
    assert not gateway.backend.turns
    assert comparable(streamed.parts) == comparable(whole.parts)
    assert streamed.end == whole.end
    assert comparable(streamed.body["usage"]) == comparable(whole.body["usage"])
    return whole


async def goes_on(gateway, reply, first, **params):
    """Send the conversation with the reply. Its prompt begins as that of the last request."""
    seen = _without_ids(gateway.backend.messages())
    after = results(reply.api, reply) or [MORE]
    history = [*first, *reply.turn, *after]
    again = await ask(gateway, reply.api, "That is all.", history=history, **params)
    assert again.status == 200, again.response.bodies
    shown = _without_ids(gateway.backend.messages())
    assert shown[: len(seen)] == seen
    assert "x-toolgate-history" not in again.own
    return again


def _without_ids(messages):
    shown = []
    for message in messages:
        kept = {name: value for name, value in message.items() if name != "tool_call_id"}
        if isinstance(kept["content"], list) and message["role"] == "assistant":
            kept["content"] = "".join(part["text"] for part in kept["content"])
        if "tool_calls" in kept:
            kept["tool_calls"] = [each["function"] for each in kept["tool_calls"]]
        shown.append(kept)
    return shown
