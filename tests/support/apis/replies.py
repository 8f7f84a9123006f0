"""Responses of the three APIs, read strictly: streams are checked event by event, and events and
bodies of Responses and Messages by the SDKs' own models.

What a response says is an `Answer` of `toolgate_verify`.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.apis import messages_api, responses_api
from tests.support.apis.found_tools import SEARCH
from tests.support.apis.read_responses import joined, read_events
from toolgate_verify import asking
from toolgate_verify.reading import chat, messages, responses
from toolgate_verify.reading.answer import Answer
from toolgate_verify.terms import Api

Json = dict[str, Any]
PATHS = {api: f"/v1{path}" for api, path in asking.PATHS.items()}
REFUSED = (AssertionError, LookupError, TypeError, ValueError)
"""What reading a response raises if the response breaks the rules of its API."""


@dataclass(frozen=True)
class Reply:
    """One choice of a response."""

    answer: Answer
    body: Json
    """The whole response; of a stream, what its events add up to."""
    last_call: str | None = None
    """How a budget ended the last call: `cut` or `closed`."""
    logprobs: Sequence[Json] = ()
    """Those of the content."""
    token_ids: Sequence[int] | None = None
    stopped_by: int | str | None = None
    """The stop string or token that ended it."""


def read(api: Api, data: bytes, *, streamed: bool) -> list[Reply]:
    """Read a response. Raises one of `REFUSED`, also if a stream is incomplete or has an error."""
    if api == Api.CHAT:
        return of_chat(joined(data) if streamed else json.loads(data))
    if api == Api.RESPONSES:
        return [_of_response(_streamed_response(data) if streamed else _response(data))]
    return [_of_message(_streamed_message(data) if streamed else _message(data))]


def error(api: Api, body: Any) -> Json:
    """Return the error of a body that has the form of the API. Raises as `read` does."""
    if api == Api.MESSAGES:
        assert body["type"] == "error"
        assert body["request_id"]
        messages_api.check_error(body)
    found: Json = body["error"]
    if api != Api.MESSAGES:
        assert found["message"]
        assert {"type", "code", "param"} <= found.keys()
    return found


def of_chat(body: Json) -> list[Reply]:
    """Each choice of a chat completion. All have the usage of the response."""
    found = []
    for at, choice in enumerate(body["choices"]):
        answer = chat.whole(body, at)
        last_call = (choice.get("toolgate") or {}).get("last_call")
        if last_call == "cut" and answer.calls:
            answer.calls[-1].complete = False
        logprobs = (choice.get("logprobs") or {}).get("content") or ()
        ids, stop = choice.get("token_ids"), choice.get("stop_reason")
        found.append(Reply(answer, body, last_call, logprobs, ids, stop))
    return found


def _of_response(body: Json) -> Reply:
    answer = responses.whole({**body, "output": [*map(_as_function, body["output"])]})
    was_cut = bool(answer.calls) and not answer.calls[-1].complete
    last_call = "cut" if was_cut else (body.get("toolgate") or {}).get("last_call")
    texts = [
        part for item in body["output"] if item["type"] == "message" for part in item["content"]
    ]
    logprobs = [each for part in texts for each in part["logprobs"]]
    return Reply(answer, body, last_call, logprobs, body.get("token_ids"), body.get("stop_reason"))


def _as_function(item: Json) -> Json:
    """The call of a search for tools as that of a function, which it is for the model."""
    if item["type"] != "tool_search_call":
        return item
    arguments = json.dumps(item["arguments"])
    return {**item, "type": "function_call", "name": SEARCH, "arguments": arguments}


def _of_message(body: Json) -> Reply:
    """A call that was cut is no part of a message, so there is no mark of it."""
    own = body.get("toolgate") or {}
    stop = body["stop_sequence"] or own.get("stop_token")
    return Reply(messages.whole(body), body, None, (), body.get("token_ids"), stop)


def _response(data: bytes) -> Json:
    body: Json = json.loads(data)
    responses_api.check_response(body)
    return body


def _streamed_response(data: bytes) -> Json:
    events = read_events(data)
    last = events[-1]
    if last["type"] not in ("response.completed", "response.incomplete"):
        raise ValueError(f"the stream ended with {last}")
    body: Json = last["response"]
    if responses_api.accumulated(events) != body["output"]:
        raise ValueError("the events do not add up to the response")
    responses_api.check_response(body)
    return body


def _message(data: bytes) -> Json:
    body: Json = json.loads(data)
    messages_api.check_message(body)
    return body


def _streamed_message(data: bytes) -> Json:
    events = read_events(data)
    for event in events:
        if event["type"] == "error":
            raise ValueError(f"an error in the stream: {event}")
    return messages_api.accumulated(events)
