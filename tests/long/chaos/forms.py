"""The requests of the load in the form of each API, and how their responses are read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.long.fuzz.apis.api import Api
from tests.long.fuzz.apis.messages import Messages
from tests.long.fuzz.apis.responses import Responses
from tests.support.apis.typed_events import read_events

Json = dict[str, Any]


def responses_body(body: Json) -> Json:
    made = {name: body[name] for name in ("model", "stream", "logit_bias")}
    made["input"] = body["messages"]
    made["max_output_tokens"] = body["max_tokens"]
    made["reasoning"] = {"effort": body["reasoning_effort"]}
    made["store"] = False
    if "tools" in body:
        made["tools"] = [
            {"type": "function", "strict": False, **tool["function"]} for tool in body["tools"]
        ]
        made |= {name: body[name] for name in ("tool_choice", "parallel_tool_calls")}
    return made


def messages_body(body: Json) -> Json:
    made = {name: body[name] for name in ("model", "stream", "logit_bias", "messages")}
    made["max_tokens"] = body["max_tokens"]
    reasons = body["reasoning_effort"] != "none"
    made["thinking"] = {"type": "adaptive" if reasons else "disabled"}
    if "tools" in body:
        made["tools"] = [
            {"name": tool["function"]["name"], "input_schema": tool["function"]["parameters"]}
            for tool in body["tools"]
        ]
        choice = {"required": "any", "auto": "auto"}[body["tool_choice"]]
        one = not body["parallel_tool_calls"]
        made["tool_choice"] = {"type": choice, "disable_parallel_tool_use": one}
    return made


@dataclass(frozen=True)
class Form:
    api: Api
    body: Callable[[Json], Json]
    last_events: tuple[str, ...]
    """Types of the events that end a complete stream."""


FORMS = {
    "responses": Form(Responses(), responses_body, ("response.completed", "response.incomplete")),
    "messages": Form(Messages(), messages_body, ("message_stop",)),
}
"""Chat completions are the form of the load itself."""


def stream_error(data: bytes) -> str | None:
    """The code of the error that ended a stream; None if there was none. Raises ValueError or
    AssertionError if an event is not whole."""
    events = read_events(data)
    if not events:
        return None
    event = events[-1]
    if event["type"] == "response.failed":
        return str(event["response"]["error"]["code"])
    if event["type"] == "error":
        error = event.get("error", event)
        return str(error.get("code") or error.get("type"))
    return None


def is_complete(form: Form, data: bytes) -> bool:
    """Whether a stream says of itself that it is complete."""
    names = [line[7:].decode() for line in data.split(b"\n") if line.startswith(b"event: ")]
    return bool(names) and names[-1] in form.last_events and data.endswith(b"\n\n")
