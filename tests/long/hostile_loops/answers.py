"""Responses of loops, read strictly, and in a form in which two of them can be compared."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from openai.lib.streaming._deltas import accumulate_delta
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from tests.support.apis import messages_api, responses_api
from tests.support.apis.read_responses import read_events
from tests.support.litellm.own_route import Response

Json = dict[str, Any]
FAILED = ("error", "response.failed")
"""Types of the last events of streams that failed."""
RANDOM = (
    *("id", "tool_use_id", "tool_call_id", "call_id", "item_id"),
    *("signature", "encrypted_content", "encrypted_index"),
)
"""Members that are others in each response."""


@dataclass(frozen=True)
class Answer:
    parts: list[Json] = field(default_factory=list)
    """Items or blocks. None of a response that failed."""
    ending: str = ""
    """The status or stop reason, or the code of the error."""
    usage: Json = field(default_factory=dict)
    failed: bool = False

    @property
    def unlisted(self) -> bool:
        """Whether the gateway could not list the tools of the MCP server."""
        lists = [part for part in self.parts if part["type"] == "mcp_list_tools"]
        return self.ending == "invalid_tools" or any(each.get("error") for each in lists)


def read(api: str, response: Response, *, streamed: bool) -> Answer:
    """Raise AssertionError, LookupError, TypeError or ValueError for a response that breaks the
    rules of its API."""
    if response.status != 200:
        return Answer(ending=_code(json.loads(response.bodies[-1])), failed=True)
    if not streamed:
        return _answer(api, response.json)
    if api == "chat":
        return _chat(_completion(response))
    events = read_events(b"".join(response.bodies))
    last = events[-1]
    if last["type"] in FAILED:
        return Answer(ending=_code(last.get("response", last)), failed=True)
    if api == "messages":
        return _answer(api, messages_api.accumulated(events, beta=True))
    _check_items(events, last["response"]["output"])
    return _answer(api, last["response"])


def comparable(value: Any) -> Any:
    """Return the value without members that are others in each response."""
    if isinstance(value, dict):
        return {name: comparable(each) for name, each in value.items() if name not in RANDOM}
    return [comparable(each) for each in value] if isinstance(value, list) else value


def difference(first: Any, second: Any, place: str = "") -> str | None:
    """Return the first difference of two values, or None."""
    if isinstance(first, dict) and isinstance(second, dict) and first.keys() == second.keys():
        pairs = [(f"{place}.{name}", first[name], second[name]) for name in first]
    elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        pairs = [(f"{place}[{at}]", one, second[at]) for at, one in enumerate(first)]
    else:
        return None if first == second else f"{place}: {first!s:.300} and {second!s:.300}"
    found = (difference(one, other, where) for where, one, other in pairs)
    return next(filter(None, found), None)


def _answer(api: str, body: Json) -> Answer:
    if api == "chat":
        ChatCompletion.model_validate_json(json.dumps(body), strict=True)
        return _chat({**body["choices"][0], "usage": body["usage"]})
    if api == "messages":
        messages_api.check_message(body, beta=True)
        return Answer(body["content"], body["stop_reason"], body["usage"])
    responses_api.check_response(body)
    return Answer(body["output"], body["status"], body["usage"])


def _completion(response: Response) -> Json:
    """Return the choice, the usage or the error that the chunks add up to."""
    message: dict[object, object] = {}
    made: Json = {"message": message}
    for chunk in response.events:
        if "error" in chunk:
            return {"error": chunk["error"]}
        ChatCompletionChunk.model_validate_json(json.dumps(chunk), strict=True)
        made["usage"] = chunk.get("usage") or made.get("usage")
        for choice in chunk["choices"]:
            accumulate_delta(message, choice["delta"])
            made["finish_reason"] = choice["finish_reason"]
    assert b"".join(response.bodies).endswith(b"data: [DONE]\n\n")
    return made


def _chat(choice: Json) -> Answer:
    """Return an answer whose parts are what the gateway ran and what the message has."""
    if "error" in choice:
        return Answer(ending=_code(choice), failed=True)
    message = choice["message"]
    given = message.pop("provider_specific_fields", None) or {}
    parts = [
        {"type": kind, "value": value}
        for kind, value in {**given, **message}.items()
        if value is not None
    ]
    for part in parts:
        for each in part["value"] if isinstance(part["value"], list) else ():
            each.pop("index", None)
    return Answer(parts, choice["finish_reason"], choice["usage"])


def _check_items(events: list[Json], output: list[Json]) -> None:
    """The items of the events are those of the response, and the deltas add up to them."""
    done: dict[int, Json] = {}
    texts: defaultdict[str, str] = defaultdict(str)
    for event in events[2:-1]:
        responses_api.check_event(event)
        if event["type"] == "response.output_item.done":
            done[event["output_index"]] = event["item"]
        elif "delta" in event:
            texts[event["item_id"]] += event["delta"]
    for at, item in enumerate(output):
        assert done.get(at, item) == item
        assert at in done or item["status"] == "incomplete"
        whole = item.get("arguments") or "".join(
            part.get("text", "") for part in item.get("content") or ()
        )
        assert at not in done or texts[item["id"]] == whole
    assert set(done) <= set(range(len(output)))


def _code(body: Json) -> str:
    error = body.get("error") or body
    return str(error.get("code") or error.get("type") or error)
