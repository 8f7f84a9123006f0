"""`toolgate launch`: runs a coding agent with a gateway, its key and a model.

Everything is given in the environment and on the command line of one run, and in a file of
Toolgate's own where a client reads the context length from nothing else. No file of the user is
changed. launch.yaml has the clients.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn
from urllib.parse import quote

import typer
import yaml

from . import CommandFailed
from . import gateway as gateways
from .cli import PASSED_ON, command, examples

KEY_VARIABLE = "TOOLGATE_API_KEY"
MIN_WINDOW = 32_768
"""Smallest context length, in tokens, that is passed to clients. Their own prompts and reserves
take almost as much: with less, some clients compact before each request or send none."""
MAX_RESULT = 10_000
"""Most tokens of the result of a call, as of OpenAI's models."""
MAX_RESERVE = 20_000
"""Most tokens that OpenCode reserves for a response."""


class Window(NamedTuple):
    """The context of a model, in tokens."""

    tokens: int
    output: int
    """What a client reserves for the response."""

    @classmethod
    def of_model(cls, shown: dict[str, Any]) -> Window | None:
        """Return the window that `GET /v1/models/{id}` shows. None if it has none, because no
        backend has responded yet, or a smaller one than MIN_WINDOW."""
        tokens, output = shown.get("max_model_len"), shown.get("max_output_tokens")
        if not isinstance(tokens, int) or not isinstance(output, int) or tokens < MIN_WINDOW:
            return None
        return cls(tokens, output)


@dataclass(frozen=True)
class Target:
    """What a client is to use."""

    url: str
    """Of the gateway, without a path."""
    model: str
    window: Window | None = None

    def file(self, client: str) -> Path:
        """Return the path of the file that Toolgate writes for a client. It is not the user's, and
        can be removed at any time."""
        folder = gateways.user_folder("XDG_CACHE_HOME", ".cache") / "launch"
        return folder / f"{client}-{quote(self.model, safe='')}.json"

    def values(self, client: str) -> dict[str, str | int]:
        """Return what the texts in launch.yaml may name."""
        values: dict[str, str | int] = {"url": self.url, "model": self.model}
        if self.window is None:
            return values
        tokens, output = self.window
        return values | {
            "file": str(self.file(client)),
            "tokens": tokens,
            "output": output,
            "prompt": tokens - output,
            "three_quarters": tokens * 3 // 4,
            "result": min(MAX_RESULT, tokens // 8),
            "opencode_input": tokens * 3 // 4 + min(MAX_RESERVE, output),
        }


class _LeftOut(Exception):
    """A value is not known."""


def _filled(template: Any, values: Mapping[str, str | int]) -> Any:
    """Return a part of launch.yaml with its values. Raises _LeftOut if it needs one that is not
    known; a member of a mapping is then left out, and a mapping of which nothing is left."""
    if isinstance(template, dict):
        found = {}
        for name, member in template.items():
            try:
                found[_filled(name, values)] = _filled(member, values)
            except _LeftOut:
                continue
        if template and not found:
            raise _LeftOut
        return found
    if isinstance(template, list):
        return [_filled(each, values) for each in template]
    if not isinstance(template, str):
        return template
    try:
        whole = re.fullmatch(r"\{(\w+)\}", template)
        return values[whole[1]] if whole else template.format_map(values)
    except KeyError:
        raise _LeftOut from None


@dataclass(frozen=True)
class LaunchedClient:
    """A client in launch.yaml."""

    command: str
    install: str
    keys: tuple[str, ...]
    removed: tuple[str, ...] = ()
    templates: Mapping[str, Any] = field(default_factory=dict)

    def variables(self, target: Target) -> dict[str, str]:
        """Return environment variables, without those of the key."""
        found = _filled(self.templates.get("variables", {}), target.values(self.command))
        return {n: json.dumps(v) if isinstance(v, dict) else str(v) for n, v in found.items()}

    def arguments(self, target: Target) -> list[str]:
        """Return the arguments before those of the user."""
        values, found = target.values(self.command), []
        for group in self.templates.get("arguments", ()):
            try:
                filled = _filled(group, values)
            except _LeftOut:
                continue
            for part in filled:
                pairs = part.items() if isinstance(part, dict) else ()
                found += [f"{n}={json.dumps(v)}" for n, v in pairs] or [part]
        return found

    def content(self, target: Target) -> Any:
        """Return the content of the client's file, or None if it needs none."""
        if target.window is None or "file" not in self.templates:
            return None
        return _filled(self.templates["file"], target.values(self.command))


def _read() -> dict[str, LaunchedClient]:
    given = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
    return {
        name: LaunchedClient(
            name, each.pop("install"), tuple(each.pop("keys")), tuple(each.pop("removed", ())), each
        )
        for name, each in given.items()
    }


CLIENTS = _read()
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
    try:
        shown = gateways.ask(url, key, f"/v1/models/{quote(model)}")
    except CommandFailed:  # LiteLLM answers, for example, if the gateway has another authentication
        shown = {}
    chosen, target = CLIENTS[client], Target(url, model, Window.of_model(shown))
    if target.window is None:
        small = (
            f"The context of the model has {shown.get('max_model_len', 0):,} tokens. Clients need "
            f"{MIN_WINDOW:,} for their own prompts and tools. {ASSUMED}."
        )
        typer.echo(UNKNOWN if shown.get("max_model_len") is None else small, err=True)
    lines = shell_lines(chosen, target, context.args)
    if as_text:
        typer.echo("\n".join([*file_lines(chosen, target), *lines]))
        return
    typer.echo("\n".join(lines), err=True)
    run(chosen, target, key, context.args)


def file_lines(client: LaunchedClient, target: Target) -> list[str]:
    """Return shell commands that write the client's file, if it has one."""
    if (content := client.content(target)) is None:
        return []
    path = target.file(client.command)
    return [
        f"mkdir -p {shlex.quote(str(path.parent))}",
        f"cat > {shlex.quote(str(path))} <<'END'",
        json.dumps(content, indent=2),
        "END",
    ]


def shell_lines(client: LaunchedClient, target: Target, arguments: Sequence[str]) -> list[str]:
    """Return what `run` does as shell commands, with the variable of the key instead of the key."""
    variables = client.variables(target)
    return [
        *(f"unset {name}" for name in client.removed),
        *(f'export {name}="${KEY_VARIABLE}"' for name in client.keys if name != KEY_VARIABLE),
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
    if (content := client.content(target)) is not None:
        _write(target.file(client.command), content)
    inherited = {name: value for name, value in os.environ.items() if name not in client.removed}
    environment = {**inherited, **client.variables(target), **dict.fromkeys(client.keys, key)}
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
