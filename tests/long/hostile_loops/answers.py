"""Responses of loops, read strictly, and in a form in which two of them can be compared."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from tests.support.apis import messages_api, responses_api
from tests.support.apis.typed_events import read_events
from tests.support.litellm.own_route import Response

Json = dict[str, Any]
FAILED = ("error", "response.failed")
"""Types of the last events of streams that failed."""
RANDOM = ("id", "tool_use_id", "call_id", "item_id", "signature", "encrypted_content")
"""Members that are others in each response."""


@dataclass(frozen=True)
class Answer:
    parts: list[Json] = field(default_factory=list)
    """Items or blocks. None of a response that failed."""
    ending: str = ""
    """The status or stop reason, or the code of the error."""
    usage: Json = field(default_factory=dict)
    failed: bool = False


def read(api: str, response: Response, *, streamed: bool) -> Answer:
    """Raise AssertionError, LookupError, TypeError or ValueError for a response that breaks the
    rules of its API."""
    if not streamed or response.headers[b"content-type"] == b"application/json":
        body = json.loads(response.bodies[-1]) if response.status != 200 else response.json
        if response.status != 200:
            return Answer(ending=_code(body), failed=True)
        check = responses_api.check_response if api == "responses" else messages_api.check_message
        check(body)
        return _answer(api, body)
    data = b"".join(response.bodies)
    events = read_events(data)
    last = events[-1]
    if last["type"] in FAILED:
        return Answer(ending=_code(last.get("response", last)), failed=True)
    if api == "messages":
        return _answer(api, messages_api.accumulated(events))
    body = last["response"]
    if responses_api.accumulated(events) != body["output"]:
        raise ValueError("the events do not add up to the response")
    responses_api.check_response(body)
    return _answer(api, body)


def comparable(value: Any) -> Any:
    """Return the value without members that are others in each response."""
    if isinstance(value, dict):
        return {name: comparable(each) for name, each in value.items() if name not in RANDOM}
    return [comparable(each) for each in value] if isinstance(value, list) else value


def _answer(api: str, body: Json) -> Answer:
    parts, ending = ("output", "status") if api == "responses" else ("content", "stop_reason")
    return Answer(body[parts], str(body[ending]), body["usage"])


def _code(body: Json) -> str:
    error = body.get("error") or body
    return str(error.get("code") or error.get("type") or error)
