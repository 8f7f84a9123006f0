"""`toolgate chat`: a chat in the terminal, with tools that run here."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

import httpx
import typer
from rich.console import Console

from . import gateway as gateways
from .chat_tools import TOOLS, result
from .main import command, examples

CONNECT_SECONDS = 10.0
READ_SECONDS = 600.0
MAX_ROUNDS = 8
"""Requests of one turn of the user."""
MAX_ERROR = 2_000
"""Bytes of an error response that are read as text."""
QUIT = ("/quit", "/exit", "/q")
NEW = "/new"


@command(
    epilog=examples(
        "toolgate chat",
        "toolgate chat --model qwen --effort none --url http://gateway:4000 --key sk-…",
        'echo "What is 17 * 23?" | toolgate chat',
    )
)
def chat(
    url: gateways.Url = gateways.DEFAULT_URL,
    model: gateways.Model = None,
    key: gateways.Key = None,
    system: Annotated[str | None, typer.Option(help="System message.")] = None,
    effort: Annotated[
        str | None, typer.Option(help="reasoning_effort of the requests: none, low, …")
    ] = None,
    max_tokens: Annotated[int, typer.Option(help="Limit of each answer.", min=1)] = 1024,
    tools: Annotated[bool, typer.Option(help="Offer the tools.")] = True,
) -> None:
    """Chat with a model in the terminal.

    The model is offered two tools, which run here: get_current_time and calculate. Calls and
    results are shown. /new starts a new conversation; /quit or Ctrl-D ends the chat, Ctrl-C an
    answer. If standard input is not a terminal, each line is a turn; the exit status is 1 if one
    failed."""
    url, key = gateways.root(url), gateways.api_key(url, key)
    options: dict[str, Any] = {
        "model": gateways.chosen_model(url, key, model),
        "max_tokens": max_tokens,
    }
    if effort is not None:
        options["reasoning_effort"] = effort
    if tools:
        options["tools"] = [tool.definition for tool in TOOLS.values()]
    interactive = sys.stdin.isatty()
    if interactive:
        typer.echo(f"{options['model']} at {url}. /new, /quit", err=True)
    first = [{"role": "system", "content": system}] if system else []
    failed = False
    with httpx.Client(
        base_url=url,
        headers={"Authorization": f"Bearer {key}"},
        timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
        trust_env=False,
    ) as client:
        conversation = Conversation(client, options, first)
        while (text := _line(interactive)) is not None and text not in QUIT:
            if text == NEW:
                conversation.messages = [*first]
                continue
            try:
                if text:
                    conversation.say(text)
            except ChatFailed as error:
                typer.echo(f"\n{error}", err=True)
                failed = True
            except KeyboardInterrupt:
                typer.echo("\n(interrupted)", err=True)
    raise typer.Exit(1 if failed and not interactive else 0)


def _line(interactive: bool) -> str | None:
    """Return the next line of the user, or None at the end."""
    try:
        if interactive:
            return input("> ").strip()
        line = sys.stdin.readline()
        return line.strip() if line else None
    except (EOFError, KeyboardInterrupt):
        return None


class ChatFailed(Exception):
    """A request failed. The conversation is as it was before the turn."""


class Conversation:
    """Streams answers, runs the calls, and asks again with their results."""

    def __init__(
        self, client: httpx.Client, options: Mapping[str, Any], messages: Sequence[dict[str, Any]]
    ) -> None:
        """`options`: fields of each request, among them the model."""
        self._client = client
        self._options = dict(options)
        self._console = Console(highlight=False)
        self.messages = [*messages]

    def say(self, text: str) -> None:
        """Print the answer to a text, and the calls and their results before it. Raises
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
        """Send one request. Return whether the model called tools, whose results it should read."""
        message = self._answer()
        self.messages.append(message)
        for call in message.get("tool_calls", ()):
            function = call["function"]
            content = result(function["name"], function["arguments"])
            self._show(f"← {content}\n", "dim")
            self.messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})
        return "tool_calls" in message

    def _answer(self) -> dict[str, Any]:
        """Return the message, which is printed as it arrives."""
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
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if calls:
            message |= {"content": content or None, "tool_calls": calls}
            message |= {"reasoning_content": reasoning} if reasoning else {}
        return message

    def _add(self, calls: list[dict[str, Any]], part: dict[str, Any]) -> None:
        """Add a delta to its call, and print it."""
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
        try:
            with self._client.stream("POST", "/v1/chat/completions", json=body) as response:
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
        except httpx.HTTPError as error:
            raise ChatFailed(
                f"The connection to the gateway failed ({type(error).__name__}). Check --url, and "
                "that the gateway is running."
            ) from error

    def _show(self, text: str, style: str = "") -> None:
        self._console.print(text, style=style, end="", markup=False, soft_wrap=True)


def _reason(response: httpx.Response) -> str:
    response.read()
    try:
        return str(response.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {response.status_code}: {response.text[:MAX_ERROR]}"
