"""A client of one chat endpoint that parses streamed and non-streamed responses alike."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from bench.support.contenders import Server

TIMEOUT_SECONDS = 60.0
"""Time limit of a response. All requests are for at most a few hundred tokens."""


@dataclass
class Choice:
    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Names and arguments, including the deprecated `function_call`."""
    legacy: bool = False
    """Whether the call was a `function_call`."""
    finish: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    """Logprobs of the content."""
    call_logprobs: list[dict[str, Any]] = field(default_factory=list)
    """Logprobs of the tool calls."""


@dataclass
class ChatResponse:
    status: int
    choices: list[Choice] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    usages: int = 0
    """Number of chunks with usage."""
    body: dict[str, Any] = field(default_factory=dict)
    """All fields but the choices, merged over the chunks if streamed."""
    headers: Mapping[str, str] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    broken: str = ""
    """Why the response is not in OpenAI's format. Empty if it is."""

    @property
    def text(self) -> str:
        return self.choices[0].content if self.choices else ""

    @property
    def completion(self) -> int:
        return int(self.usage["completion_tokens"]) if self.usage else 0

    @property
    def prompt(self) -> int:
        return int(self.usage["prompt_tokens"]) if self.usage else 0


Send = Callable[..., ChatResponse]


class Prober:
    """Sends requests to one server, either all streamed or none. Equal requests are sent once."""

    def __init__(self, server: Server, model: str, *, stream: bool) -> None:
        self._http = httpx.Client(
            base_url=server.url,
            headers={"Authorization": f"Bearer {server.key}"},
            timeout=TIMEOUT_SECONDS,
            trust_env=False,
        )
        self._model = model
        self.stream = stream
        self._responses: dict[str, ChatResponse] = {}

    def __call__(self, request: dict[str, Any], again: bool = False) -> ChatResponse:
        """Send a request. `again` repeats it if it was sent before."""
        headers = request.get("headers", {})
        body = {"model": self._model, **request}
        body.pop("headers", None)
        if self.stream:
            options = {"stream_options": {"include_usage": True}}
            body = {**options, **body, "stream": True}
        text = json.dumps([body, headers])
        if again or text not in self._responses:
            self._responses[text] = self._send(body, headers)
        return self._responses[text]

    def _send(self, body: dict[str, Any], headers: dict[str, str]) -> ChatResponse:
        try:
            response = self._http.post("/v1/chat/completions", json=body, headers=headers)
        except httpx.HTTPError as error:
            return ChatResponse(0, broken=type(error).__name__)
        try:
            if response.is_success and body.get("stream") is True:
                return from_events(response)
            return from_body(response)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            return ChatResponse(
                response.status_code, broken=f"{type(error).__name__}: {response.text[:80]}"
            )


def from_body(http_response: httpx.Response) -> ChatResponse:
    status, headers = http_response.status_code, http_response.headers
    body = http_response.json()
    if not http_response.is_success:
        error = body.get("error") if isinstance(body, dict) else None
        text = http_response.text[:80]
        broken = "" if isinstance(error, dict) else f"no OpenAI error body: {text}"
        return ChatResponse(status, error=error, broken=broken, headers=headers)
    response = ChatResponse(200, headers=headers, usage=body.get("usage"), body=body)
    for given in body["choices"]:
        choice = Choice()
        _add(choice, given["message"], given)
        response.choices.append(choice)
    return response


def from_events(http_response: httpx.Response) -> ChatResponse:
    response = ChatResponse(200, headers=http_response.headers)
    choices: dict[int, Choice] = {}
    lines = [line[6:] for line in http_response.text.splitlines() if line.startswith("data: ")]
    if not lines or lines.pop() != "[DONE]":
        response.broken = "the stream does not end with [DONE]"
    for chunk in map(json.loads, lines):
        if "error" in chunk:
            code = chunk["error"].get("code")
            response.error = chunk["error"]
            response.status = code if isinstance(code, int) else 500
            continue
        if chunk.get("usage"):
            response.usage, response.usages = chunk["usage"], response.usages + 1
        response.body |= {name: value for name, value in chunk.items() if value is not None}
        for given in chunk["choices"]:
            _add(choices.setdefault(given["index"], Choice()), given["delta"], given)
    response.choices = [choices[at] for at in sorted(choices)]
    return response


def _add(choice: Choice, message: dict[str, Any], given: dict[str, Any]) -> None:
    """Add a message, or a delta of a message, to `choice`. `given` is its entry in `choices`."""
    choice.content += message.get("content") or ""
    choice.reasoning += message.get("reasoning_content") or message.get("reasoning") or ""
    for call in message.get("tool_calls") or []:
        _add_call(choice, call["function"], new=bool(call.get("id")))
    if function := message.get("function_call"):
        choice.legacy = True
        _add_call(choice, function, new=bool(function.get("name")))
    choice.finish = given.get("finish_reason") or choice.finish
    if given.get("stop_reason") is not None:
        choice.stop_reason = given["stop_reason"]
    choice.token_ids += given.get("token_ids") or []
    logprobs = given.get("logprobs") or {}
    choice.logprobs += logprobs.get("content") or []
    for call_logprobs in logprobs.get("tool_calls") or []:
        choice.call_logprobs += call_logprobs["content"]


def _add_call(choice: Choice, function: dict[str, Any], *, new: bool) -> None:
    if new:
        choice.calls.append((function.get("name") or "", ""))
    name, arguments = choice.calls[-1]
    choice.calls[-1] = (name, arguments + (function.get("arguments") or ""))
