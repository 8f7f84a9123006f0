"""How the streams of each API end: complete, or with an error."""

from __future__ import annotations

from tests.support.apis.typed_events import read_events
from toolgate_verify.terms import Api

LAST_EVENTS = {
    Api.RESPONSES: ("response.completed", "response.incomplete"),
    Api.MESSAGES: ("message_stop",),
}
"""Types of the events that end a complete stream. Chunks of chat completions have no types."""


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


def is_complete(api: Api, data: bytes) -> bool:
    """Whether a stream says of itself that it is complete."""
    names = [line[7:].decode() for line in data.split(b"\n") if line.startswith(b"event: ")]
    return bool(names) and names[-1] in LAST_EVENTS[api] and data.endswith(b"\n\n")
