"""An error about the context length has, on each API, the words and the code by which clients
recognize it. They then shorten the conversation instead of giving up."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.litellm.own_route import Gateway, Response
from tests.support.servers.script import Script
from toolgate_core.errors import ContextLengthExceeded

CODE = ContextLengthExceeded.code
TOO_LONG = ContextLengthExceeded.of_tokens(4096)
NO_ROOM = ContextLengthExceeded.of_tokens(4096, 4000, 100, param="max_tokens")
OPENAI = {
    "OpenCode": r"maximum context length is \d+ tokens|reduce the length of the messages",
    "Pi": r"maximum context length is \d+ tokens",
    "LiteLLM, aider": r"^(?:.* )?this model's maximum context length is",
    "Cline, Roo Code": r"\bmaximum\s*context\b",
    "Hermes": r"context length",
}
ANTHROPIC = {
    "Claude Code": r"prompt is too long[^0-9]*\d+\s*tokens?\s*>\s*\d+",
    "LangChain, OpenCode, LiteLLM": r"prompt is too long",
    "Cline": r"prompt is too long.*tokens?\s*>\s*\d+\s*maximum",
}
NO_ROOM_ANTHROPIC = {
    "Claude Code": r"input length and `max_tokens` exceed context limit: \d+ \+ \d+ > \d+",
}
LANGCHAIN = {"LangChain, OpenCode": r"exceeds the context window"}
"""Of the Responses API."""
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "long"}]},
    "/v1/responses": {"input": "long"},
    "/v1/messages": {"messages": [{"role": "user", "content": "long"}], "max_tokens": 100},
}
CASES = {
    ("/v1/chat/completions", TOO_LONG): ("messages", OPENAI),
    ("/v1/chat/completions", NO_ROOM): ("max_tokens", OPENAI),
    ("/v1/responses", TOO_LONG): ("input", OPENAI | LANGCHAIN),
    ("/v1/responses", NO_ROOM): ("max_output_tokens", OPENAI),
    ("/v1/messages", TOO_LONG): ("messages", ANTHROPIC),
    ("/v1/messages", NO_ROOM): ("max_tokens", NO_ROOM_ANTHROPIC),
}


async def ask(
    gateway: Gateway, path: str, error: ContextLengthExceeded, *, stream: bool, queued: float = 0
) -> Response:
    script = Script((), error_status=400, error=error.body()["error"], queued=queued)
    gateway.backend.scripts["long"] = script
    return await gateway.ask({"model": "tiny", "stream": stream, **BODIES[path]}, path=path)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize(("path", "error"), CASES)
async def test_clients_recognize_the_error(
    gateway: Gateway, path: str, error: ContextLengthExceeded, stream: bool
) -> None:
    response = await ask(gateway, path, error, stream=stream)
    shown = response.json["error"]
    param, patterns = CASES[path, error]
    assert (response.status, shown["code"], shown["param"]) == (400, CODE, param)
    assert shown["type"] == "invalid_request_error"
    assert shown["context_length"] == 4096
    check_words(shown["message"], patterns)


@pytest.mark.parametrize(("path", "error"), CASES)
async def test_clients_recognize_the_error_after_a_keep_alive(
    gateway: Gateway, path: str, error: ContextLengthExceeded
) -> None:
    response = await ask(gateway, path, error, stream=True, queued=0.2)
    assert response.status == 200
    events = [event for event in response.events if "error" in event]
    assert events, response.bodies
    for event in events:
        assert event["error"]["code"] == CODE
        check_words(event["error"]["message"], CASES[path, error][1])


def check_words(message: str, patterns: dict[str, str]) -> None:
    missed = [name for name, each in patterns.items() if not re.search(each, message, re.I)]
    assert not missed, message
