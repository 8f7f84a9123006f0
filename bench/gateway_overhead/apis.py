"""The requests of each API, and the sign of a complete response."""

from dataclasses import dataclass
from typing import Any

PROMPT = [{"role": "user", "content": "Say something."}]


@dataclass(frozen=True)
class Api:
    path: str
    body: dict[str, Any]
    stream_body: dict[str, Any]
    """Fields of streamed requests in addition."""
    stream_end: bytes
    """Text in the last bytes of a stream."""
    whole_sign: bytes
    """Text in the end of a response that is not streamed."""


APIS = {
    "chat": Api(
        path="/v1/chat/completions",
        body={"messages": PROMPT, "max_tokens": 64, "temperature": 0.7},
        stream_body={"stream": True, "stream_options": {"include_usage": True}},
        stream_end=b"[DONE]",
        whole_sign=b'"usage"',
    ),
    "responses": Api(
        path="/v1/responses",
        # LiteLLM stores nothing without a database, so that Toolgate is not asked to either.
        body={"input": PROMPT, "max_output_tokens": 64, "temperature": 0.7, "store": False},
        stream_body={"stream": True},
        stream_end=b"response.completed",
        whole_sign=b'"completed"',
    ),
    "messages": Api(
        path="/v1/messages",
        body={"messages": PROMPT, "max_tokens": 64, "temperature": 0.7},
        stream_body={"stream": True},
        stream_end=b"message_stop",
        whole_sign=b'"end_turn"',
    ),
}
"""By name in the command line."""
