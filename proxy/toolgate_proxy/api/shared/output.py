"""What responses of several APIs have in common: server-sent events, and fields that most APIs do
not define: vLLM's and Toolgate's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from toolgate_core import wire
from toolgate_core.deltas import Finish

from ...chat.response import ChatResponse

COMMENT = b": waiting\n\n"
"""Clients of server-sent events ignore comments."""
LINE_ENDS = {
    character.encode(): f"\\u{ord(character):04x}".encode() for character in "\u0085\u2028\u2029"
}
"""Escapes for characters that JSON allows unescaped. Clients that decode a stream before they split
it into lines (such as httpx's `aiter_lines`) treat these characters as line ends."""


def data_event(data: bytes) -> bytes:
    """Return an event with `data` on one line. In JSON, a newline between tokens is a space."""
    return b"data: " + data.replace(b"\n", b" ") + b"\n\n"


def typed_events(events: Iterable[Mapping[str, Any]]) -> bytes:
    """Return events that have their type in `event:` and in their data."""
    written = (
        b"event: %b\ndata: %b\n\n" % (event["type"].encode(), orjson.dumps(event))
        for event in events
    )
    return with_escaped_line_ends(b"".join(written))


def with_escaped_line_ends(events: bytes) -> bytes:
    if events.isascii():
        return events
    for character, escaped in LINE_ENDS.items():
        if character in events:
            events = events.replace(character, escaped)
    return events


def finish_fields(finish: Finish) -> dict[str, Any]:
    """Return fields beyond OpenAI's `finish_reason` that report why a choice ended."""
    fields: dict[str, Any] = {}
    if finish.stop_reason is not None:
        fields["stop_reason"] = finish.stop_reason  # vLLM's field
    if finish.call is not None:
        fields["toolgate"] = {"last_call": finish.call}
    return fields


def prompt_fields(response: ChatResponse) -> dict[str, Any]:
    """Return vLLM's fields about the prompt, if the request enabled them."""
    fields: dict[str, Any] = {}
    if response.prompt_token_ids is not None:
        fields["prompt_token_ids"] = list(response.prompt_token_ids)
    if response.prompt_text is not None:
        fields["prompt_text"] = response.prompt_text
    if response.prompt_logprobs is not None:
        fields["prompt_logprobs"] = [
            None if at is None else {str(token): each for token, each in at.items()}
            for at in response.prompt_logprobs
        ]
    return fields


def token_logprobs(tokens: Iterable[wire.TokenLogprob]) -> list[dict[str, Any]]:
    """Return the logprobs as OpenAI's APIs have them. OpenAI's events of the Responses API have no
    bytes, but those of the Open Responses specification do."""
    return [
        {**_logprob(token), "top_logprobs": [_logprob(top) for top in token.top]}
        for token in tokens
    ]


def _logprob(token: wire.TopLogprob) -> dict[str, Any]:
    return {"token": token.token, "logprob": token.logprob, "bytes": list(token.bytes)}
