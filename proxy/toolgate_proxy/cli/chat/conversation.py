"""One conversation: streams answers, runs the calls, and answers again with their results."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx
from rich.console import Console

from .tools import TOOLS, result

CONNECT_SECONDS = 10.0
READ_SECONDS = 600.0
MAX_ROUNDS = 8
"""Requests of one turn of the user."""
MAX_ERROR = 2_000
"""Bytes of an error response that are read as text."""


class ChatFailed(Exception):
    """A request failed. The conversation is as it was before the turn."""


class Conversation:
    def __init__(
        self, url: str, key: str, options: Mapping[str, Any], console: Console, *, tools: bool
    ) -> None:
        """`url`: without a path. `options`: fields of each request, among them the model."""
        self._url = f"{url}/v1/chat/completions"
        self._client = httpx.Client(
            headers={"Authorization": f"Bearer {key}"},
            timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            trust_env=False,
        )
        self._options = dict(options)
        if tools:
            self._options["tools"] = [tool.definition for tool in TOOLS.values()]
        self._console = console
        self.messages: list[dict[str, Any]] = []

    def close(self) -> None:
        self._client.close()

    def say(self, text: str) -> None:
        """One turn: prints the answer, and the calls and their results before it. Raises
        ChatFailed; a turn that failed or was interrupted is forgotten."""
        before = len(self.messages)
        try:
            self.messages.append({"role": "user", "content": text})
            for _ in range(MAX_ROUNDS):
                if not self._round():
                    return
            raise ChatFailed(f"The model called tools in {MAX_ROUNDS} requests in a row.")
        except BaseException:
            del self.messages[before:]
            raise

    def _round(self) -> bool:
        """One request. Whether the model called tools, whose results it should read."""
        message = self._answer()
        self.messages.append(message)
        for call in message.get("tool_calls", ()):
            function = call["function"]
            content = result(function["name"], function["arguments"])
            self._show(f"← {content}\n", "dim")
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        return "tool_calls" in message

    def _answer(self) -> dict[str, Any]:
        """The message, which is printed as it arrives."""
        content, reasoning, finish = "", "", None
        calls: list[dict[str, Any]] = []
        for chunk in self._chunks():
            for choice in chunk.get("choices", ()):
                delta = choice["delta"]
                if thought := delta.get("reasoning_content"):
                    reasoning += thought
                    self._show(thought, "dim italic")
                if piece := delta.get("content"):
                    if reasoning and not content:
                        self._show("\n")
                    content += piece
                    self._show(piece)
                for part in delta.get("tool_calls") or ():
                    self._add(calls, part)
                finish = choice.get("finish_reason") or finish
        self._show("\n")
        if finish == "length":
            self._show("(cut: max_tokens is reached)\n", "yellow")
            calls = []  # the last one may not be complete
        message: dict[str, Any] = {"role": "assistant", "content": content or None}
        if reasoning and calls:
            message["reasoning_content"] = reasoning
        if calls:
            return message | {"tool_calls": calls}
        return message | {"content": content}

    def _add(self, calls: list[dict[str, Any]], part: dict[str, Any]) -> None:
        """Adds a delta to its call, and prints it."""
        function = part.get("function", {})
        if part["index"] == len(calls):
            empty = {"name": function["name"], "arguments": ""}
            calls.append({"id": part["id"], "type": "function", "function": empty})
            self._show(f"\n→ {function['name']} ", "cyan")
        arguments = function.get("arguments") or ""
        calls[part["index"]]["function"]["arguments"] += arguments
        self._show(arguments, "cyan")

    def _chunks(self) -> Iterator[dict[str, Any]]:
        body = {**self._options, "messages": self.messages, "stream": True}
        with _as_chat_failed(), self._client.stream("POST", self._url, json=body) as response:
            if response.is_error:
                raise ChatFailed(_reason(response))
            for line in response.iter_lines():
                data = line.removeprefix("data: ")
                if not line.startswith("data: ") or data == "[DONE]":
                    continue
                chunk = json.loads(data)
                if "error" in chunk:
                    raise ChatFailed(str(chunk["error"].get("message", chunk["error"])))
                yield chunk

    def _show(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style, end="", markup=False, soft_wrap=True)


@contextmanager
def _as_chat_failed() -> Iterator[None]:
    try:
        yield
    except httpx.HTTPError as error:
        raise ChatFailed(
            f"The connection to the gateway failed ({type(error).__name__}). Check --url, and that "
            "the gateway is running."
        ) from error


def _reason(response: httpx.Response) -> str:
    response.read()
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {response.status_code}: {response.text[:MAX_ERROR]}"
