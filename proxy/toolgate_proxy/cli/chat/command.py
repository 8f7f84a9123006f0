"""`toolgate chat`: a chat in the terminal."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from ..app import examples, new_app
from ..required import require_package

app = new_app()

QUIT = ("/quit", "/exit", "/q")
NEW = "/new"


@app.command(
    epilog=examples(
        "toolgate chat",
        "toolgate chat --model qwen --effort none --url http://gateway:4000 --key sk-…",
        'echo "What is 17 * 23?" | toolgate chat',
    )
)
def chat(
    url: Annotated[str, typer.Option(help="URL of the gateway.")] = "http://127.0.0.1:4000",
    model: Annotated[
        str | None, typer.Option(help="Model name. Default: the gateway's only model.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            envvar=["TOOLGATE_API_KEY", "TOOLGATE_MASTER_KEY"],
            help="API key of the gateway. Default for a gateway on this machine: the key that "
            "`toolgate serve` keeps.",
        ),
    ] = None,
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
    require_package("chat", "httpx")
    from rich.console import Console

    from ..launch.launching import NotLaunched, model_of
    from ..master_key import api_key
    from .conversation import ChatFailed, Conversation

    url = url.rstrip("/").removesuffix("/v1")
    key = api_key(url, key)
    try:
        options: dict[str, Any] = {"model": model_of(url, key, model), "max_tokens": max_tokens}
    except NotLaunched as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    if effort is not None:
        options["reasoning_effort"] = effort
    interactive = sys.stdin.isatty()
    if interactive:
        typer.echo(f"{options['model']} at {url}. /new, /quit", err=True)
    conversation = Conversation(url, key, options, Console(highlight=False), tools=tools)
    first = [{"role": "system", "content": system}] if system else []
    conversation.messages = [*first]
    failed = False
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
    conversation.close()
    raise typer.Exit(1 if failed and not interactive else 0)


def _line(interactive: bool) -> str | None:
    """The next line of the user; None at the end."""
    try:
        if interactive:
            return input("> ").strip()
        line = sys.stdin.readline()
        return line.strip() if line else None
    except (EOFError, KeyboardInterrupt):
        return None
