"""`toolgate launch`: runs a coding agent with a gateway, its key and a model.

Everything is given in the environment and on the command line of one run, and in a file of
Toolgate's own where a client reads the context length from nothing else. No file of the user is
changed.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn
from urllib.parse import quote

import typer

from . import gateway as gateways
from .cli import PASSED_ON, command, examples
from .launch_clients import CLIENTS, KEY_VARIABLE, LaunchedClient
from .launch_target import MIN_WINDOW, Target, Window
from .output import CommandFailed

ASSUMED = "The client assumes a context length of its own"
UNKNOWN = (
    "The gateway does not know the context length of the model, because no backend of it has "
    f"responded. {ASSUMED}, and may send prompts that are too long. Launch it again when `toolgate "
    "status` shows the backend as up, or set `max_input_tokens` in the `model_info` of the model."
)


@command(
    context_settings=PASSED_ON,
    epilog=examples(
        "toolgate launch codex",
        'toolgate launch claude --model qwen -- -p "List the tests."',
    ),
)
def launch(
    context: typer.Context,
    client: Annotated[str, typer.Argument(help=f"One of: {', '.join(CLIENTS)}.")],
    url: gateways.Url = gateways.DEFAULT_URL,
    model: gateways.Model = None,
    key: gateways.Key = None,
    as_text: Annotated[
        bool, typer.Option("--print", help="Print the shell commands instead of running them.")
    ] = False,
) -> None:
    """Run a coding agent with the gateway.

    The gateway, the key, the model and its context length are set for this run only. No file of
    yours is changed."""
    if client not in CLIENTS:
        raise typer.BadParameter(f"{client!r} is not one of {', '.join(CLIENTS)}.")
    url, key = gateways.root(url), gateways.api_key(url, key)
    model = gateways.chosen_model(url, key, model)
    shown, chosen = _shown(url, key, model), CLIENTS[client]
    target = Target(url, model, Window.of_model(shown))
    if target.window is None:
        typer.echo(_without_window(shown), err=True)
    lines = shell_lines(chosen, target, context.args)
    if as_text:
        typer.echo("\n".join([*file_lines(chosen, target), *lines]))
        return
    typer.echo("\n".join(lines), err=True)
    run(chosen, target, key, context.args)


def _shown(url: str, key: str, model: str) -> dict[str, Any]:
    """Return what the gateway shows of the model."""
    try:
        return gateways.ask(url, key, f"/v1/models/{quote(model)}")
    except CommandFailed:  # LiteLLM answers, for example, if the gateway has another authentication
        return {}


def _without_window(shown: dict[str, Any]) -> str:
    """Return why no context length is set."""
    if (tokens := shown.get("max_model_len")) is None:
        return UNKNOWN
    return (
        f"The context of the model has {tokens:,} tokens. Clients need {MIN_WINDOW:,} for their "
        f"own prompts and tools. {ASSUMED}."
    )


def file_lines(client: LaunchedClient, target: Target) -> list[str]:
    """Return shell commands that write the client's file, if it has one."""
    if client.file is None or target.window is None:
        return []
    path = target.file(client.command)
    return [
        f"mkdir -p {shlex.quote(str(path.parent))}",
        f"cat > {shlex.quote(str(path))} <<'END'",
        json.dumps(client.file(target), indent=2),
        "END",
    ]


def shell_lines(client: LaunchedClient, target: Target, arguments: Sequence[str]) -> list[str]:
    """Return what `run` does as shell commands, with the variable of the key instead of the key."""
    keys = (name for name in client.key_variables if name != KEY_VARIABLE)
    variables = client.variables(target)
    return [
        *(f"unset {name}" for name in client.removed),
        *(f'export {name}="${KEY_VARIABLE}"' for name in keys),
        *(f"export {name}={shlex.quote(value)}" for name, value in variables.items()),
        shlex.join([client.command, *client.arguments(target), *arguments]),
    ]


def run(client: LaunchedClient, target: Target, key: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the client. Raises CommandFailed if it is not installed, or if its
    file can't be written."""
    program = shutil.which(client.command)
    if program is None:
        raise CommandFailed(
            f"The command `{client.command}` is not installed. Install it with `{client.install}`."
        )
    if client.file is not None and target.window is not None:
        _write(target.file(client.command), client.file(target))
    inherited = {name: value for name, value in os.environ.items() if name not in client.removed}
    keys = dict.fromkeys(client.key_variables, key)
    environment = {**inherited, **client.variables(target), **keys}
    os.execve(program, [client.command, *client.arguments(target), *arguments], environment)


def _write(path: Path, content: object) -> None:
    """Write a file in one step: another client may read it at the same time."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(content, indent=2), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise CommandFailed(
            f"The file {path} can't be written ({type(error).__name__}). Set XDG_CACHE_HOME to a "
            "folder that you can write to."
        ) from error
