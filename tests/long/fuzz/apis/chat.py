"""Chat completions."""

from __future__ import annotations

import json
from random import Random
from typing import Any

from tests.long.fuzz.checks import from_chunks
from tests.long.fuzz.requests import make_request
from tests.long.fuzz.values import Request


class Chat:
    path = "/v1/chat/completions"

    def make_request(self, rng: Random, model: str, bias: dict[str, float] | None) -> Request:
        return make_request(rng, model, bias)

    def whole(self, data: bytes) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(data)
        return body

    def streamed(self, data: bytes) -> dict[str, Any]:
        return joined(data)

    def error(self, body: Any) -> dict[str, Any]:
        return openai_error(body)

    def own_violations(self, response: dict[str, Any], request: Request) -> list[str]:
        return []


def joined(data: bytes) -> dict[str, Any]:
    """The response of a stream. Raises ValueError if it is incomplete or breaks the format."""
    # Only "\n" ends a line: JSON may contain Unicode's other line separators.
    lines = [line for line in data.split(b"\n") if line.startswith(b"data: ")]
    chunks = [line.removeprefix(b"data: ") for line in lines]
    if chunks[-1:] != [b"[DONE]"]:
        raise ValueError(f"the stream ended with {chunks[-1:]}")
    return from_chunks([json.loads(chunk) for chunk in chunks[:-1]])


def openai_error(body: Any) -> dict[str, Any]:
    error: dict[str, Any] = body["error"]
    assert error["message"]
    assert {"type", "code", "param"} <= error.keys()
    return error
