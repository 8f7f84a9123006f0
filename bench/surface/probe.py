"""One request to a chat endpoint, and what came of it in one form, streamed or not."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from bench.support.contenders import Server

SECONDS = 60.0
"""What an answer may take: none of the requests asks for more than a few hundred tokens."""


@dataclass
class Choice:
    content: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    """Names and arguments; a call in the deprecated form among them."""
    legacy: bool = False
    finish: str | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[dict[str, Any]] = field(default_factory=list)
    """Of the content."""
    call_logprobs: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Seen:
    status: int
    choices: list[Choice] = field(default_factory=list)
    usage: dict[str, Any] | None = None
    usages: int = 0
    """Chunks with usage."""
    body: dict[str, Any] = field(default_factory=dict)
    """All fields beside the choices, of the answer or of its chunks together."""
    headers: Mapping[str, str] = field(default_factory=dict)
    error: dict[str, Any] | None = None
    broken: str = ""
    """Why this is no answer in OpenAI's form at all."""

    @property
    def text(self) -> str:
        return self.choices[0].content if self.choices else ""

    @property
    def completion(self) -> int:
        return int(self.usage["completion_tokens"]) if self.usage else 0

    @property
    def prompt(self) -> int:
        return int(self.usage["prompt_tokens"]) if self.usage else 0


AdmissionRequest = Callable[..., Seen]


class Prober:
    """Asks one server, in one form. Equal requests are sent once."""

    def __init__(self, server: Server, model: str, *, stream: bool) -> None:
        self._http = httpx.Client(
            base_url=server.url,
            headers={"Authorization": f"Bearer {server.key}"},
            timeout=SECONDS,
            trust_env=False,
        )
        self._model = model
        self.stream = stream
        self._seen: dict[str, Seen] = {}

    def __call__(self, request: dict[str, Any], again: bool = False) -> Seen:
        """`again` sends what was sent before once more."""
        headers = request.get("headers", {})
        body = {"model": self._model, **request}
        body.pop("headers", None)
        if self.stream:
            options = {"stream_options": {"include_usage": True}}
            body = {**options, **body, "stream": True}
        text = json.dumps([body, headers])
        if again or text not in self._seen:
            self._seen[text] = self._send(body, headers)
        return self._seen[text]

    def _send(self, body: dict[str, Any], headers: dict[str, str]) -> Seen:
        try:
            answer = self._http.post("/v1/chat/completions", json=body, headers=headers)
        except httpx.HTTPError as error:
            return Seen(0, broken=type(error).__name__)
        try:
            if answer.is_success and body.get("stream") is True:
                return from_events(answer)
            return from_body(answer)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            return Seen(answer.status_code, broken=f"{type(error).__name__}: {answer.text[:80]}")


def from_body(answer: httpx.Response) -> Seen:
    body = answer.json()
    if not answer.is_success:
        error = body.get("error") if isinstance(body, dict) else None
        broken = "" if isinstance(error, dict) else f"no OpenAI error body: {answer.text[:80]}"
        return Seen(answer.status_code, error=error, broken=broken, headers=answer.headers)
    seen = Seen(200, headers=answer.headers, usage=body.get("usage"), body=body)
    for given in body["choices"]:
        choice = Choice()
        _add(choice, given["message"], given)
        seen.choices.append(choice)
    return seen


def from_events(answer: httpx.Response) -> Seen:
    seen, choices = Seen(200, headers=answer.headers), dict[int, Choice]()
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    if not lines or lines.pop() != "[DONE]":
        seen.broken = "the stream does not end with [DONE]"
    for chunk in map(json.loads, lines):
        if "error" in chunk:
            code = chunk["error"].get("code")
            seen.error, seen.status = chunk["error"], code if isinstance(code, int) else 500
            continue
        if chunk.get("usage"):
            seen.usage, seen.usages = chunk["usage"], seen.usages + 1
        seen.body |= {name: value for name, value in chunk.items() if value is not None}
        for given in chunk["choices"]:
            _add(choices.setdefault(given["index"], Choice()), given["delta"], given)
    seen.choices = [choices[at] for at in sorted(choices)]
    return seen


def _add(choice: Choice, said: dict[str, Any], given: dict[str, Any]) -> None:
    """A message, or a delta of one."""
    choice.content += said.get("content") or ""
    choice.reasoning += said.get("reasoning_content") or said.get("reasoning") or ""
    for call in said.get("tool_calls") or []:
        _add_call(choice, call["function"], new=bool(call.get("id")))
    if function := said.get("function_call"):
        choice.legacy = True
        _add_call(choice, function, new=bool(function.get("name")))
    choice.finish = given.get("finish_reason") or choice.finish
    if given.get("stop_reason") is not None:
        choice.stop_reason = given["stop_reason"]
    choice.token_ids += given.get("token_ids") or []
    logprobs = given.get("logprobs") or {}
    choice.logprobs += logprobs.get("content") or []
    for told in logprobs.get("tool_calls") or []:
        choice.call_logprobs += told["content"]


def _add_call(choice: Choice, function: dict[str, Any], *, new: bool) -> None:
    if new:
        choice.calls.append((function.get("name") or "", ""))
    name, arguments = choice.calls[-1]
    choice.calls[-1] = (name, arguments + (function.get("arguments") or ""))
