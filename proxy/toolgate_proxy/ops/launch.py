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
from typing import Annotated, Any, NoReturn
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


@dataclass(frozen=True)
class AgentModel:
    """The model that a client is to use: a gateway (its URL without a path), a model, and the
    lengths of the model's context and of a response, in tokens. Both are None if they are not to be
    set."""

    url: str
    model: str
    tokens: int | None = None
    output: int | None = None

    @classmethod
    def of_model(cls, url: str, model: str, entry: dict[str, Any]) -> AgentModel:
        """`entry`: by `GET /v1/models/{id}`. It has no lengths if no backend has responded yet. A
        context below MIN_WINDOW is not to be set."""
        tokens, output = entry.get("max_model_len"), entry.get("max_output_tokens")
        if not isinstance(tokens, int) or not isinstance(output, int) or tokens < MIN_WINDOW:
            return cls(url, model)
        return cls(url, model, tokens, output)

    def file(self, client: str) -> Path:
        """Return the path of the file that Toolgate, not the user, writes for a client."""
        folder = gateways.user_folder("XDG_CACHE_HOME", ".cache") / "launch"
        return folder / f"{client}-{quote(self.model, safe='')}.json"

    def values(self, client: str) -> dict[str, str | int]:
        """Return what the texts in launch.yaml may name."""
        values: dict[str, str | int] = {"url": self.url, "model": self.model}
        if (tokens := self.tokens) is None or (output := self.output) is None:
            return values
        return values | {
            "file": str(self.file(client)),
            "tokens": tokens,
            "output": output,
            "prompt": tokens - output,
            "three_quarters": tokens * 3 // 4,
            "result": min(MAX_RESULT, tokens // 8),
            "opencode_input": tokens * 3 // 4 + min(MAX_RESERVE, output),
        }


def _filled(template: Any, values: Mapping[str, str | int]) -> Any:
    """Return a part of launch.yaml with its values, or None if it needs one that is not known.
    Mappings are without such members, and None if nothing is left of them."""
    if isinstance(template, dict):
        pairs = [(_filled(name, values), _filled(each, values)) for name, each in template.items()]
        filled = {name: each for name, each in pairs if name is not None and each is not None}
        return filled if filled or not template else None
    if isinstance(template, list):
        parts = [_filled(each, values) for each in template]
        return None if None in parts else parts
    if not isinstance(template, str):
        return template
    if whole := re.fullmatch(r"\{(\w+)\}", template):
        return values.get(whole[1])
    try:
        return template.format_map(values)
    except KeyError:
        return None


@dataclass(frozen=True)
class LaunchedClient:
    """A client in launch.yaml."""

    command: str
    install: str
    keys: list[str]
    removed: list[str] = field(default_factory=list)
    variables: dict[str, Any] = field(default_factory=dict)
    arguments: list[list[Any]] = field(default_factory=list)
    file: Any = None

    def variables_for(self, target: AgentModel) -> dict[str, str]:
        """Return environment variables, without those of the key."""
        variables = _filled(self.variables, target.values(self.command))
        return {n: json.dumps(v) if isinstance(v, dict) else str(v) for n, v in variables.items()}

    def arguments_for(self, target: AgentModel) -> list[str]:
        """Return the arguments before those of the user."""
        values, arguments = target.values(self.command), []
        for group in self.arguments:
            for part in _filled(group, values) or ():
                pairs = part.items() if isinstance(part, dict) else ()
                arguments += [f"{n}={json.dumps(v)}" for n, v in pairs] or [part]
        return arguments

    def content(self, target: AgentModel) -> Any:
        """Return the content of the client's file, or None if it needs none."""
        return target.tokens and _filled(self.file, target.values(self.command))


_GIVEN = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
CLIENTS = {name: LaunchedClient(name, **each) for name, each in _GIVEN.items()}
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
    url = gateways.root(url)
    if (key := key or gateways.find_master_key(url)) is None:
        raise typer.BadParameter("Set --key or TOOLGATE_API_KEY to an API key of the gateway.")
    model = gateways.chosen_model(url, key, model)
    try:
        entry = gateways.ask(url, key, f"/v1/models/{quote(model)}")
    except CommandFailed:  # LiteLLM answers, for example, if the gateway has another authentication
        entry = {}
    chosen, target = CLIENTS[client], AgentModel.of_model(url, model, entry)
    if target.tokens is None:
        small = (
            f"The context of the model has {entry.get('max_model_len', 0):,} tokens. Clients need "
            f"{MIN_WINDOW:,} for their own prompts and tools. {ASSUMED}."
        )
        typer.echo(UNKNOWN if entry.get("max_model_len") is None else small, err=True)
    lines = shell_lines(chosen, target, context.args)
    if as_text:
        typer.echo("\n".join([*file_lines(chosen, target), *lines]))
        return
    typer.echo("\n".join(lines), err=True)
    run(chosen, target, key, context.args)


def file_lines(client: LaunchedClient, target: AgentModel) -> list[str]:
    """Return shell commands that write the client's file, if it has one."""
    content, path = client.content(target), target.file(client.command)
    folder, file = shlex.quote(str(path.parent)), shlex.quote(str(path))
    lines = [f"mkdir -p {folder}", f"cat > {file} <<'END'", json.dumps(content, indent=2), "END"]
    return lines if content is not None else []


def shell_lines(client: LaunchedClient, target: AgentModel, arguments: Sequence[str]) -> list[str]:
    """Return what `run` does as shell commands, with the variable of the key instead of the key."""
    variables = client.variables_for(target)
    return [
        *(f"unset {name}" for name in client.removed),
        *(f'export {name}="${KEY_VARIABLE}"' for name in client.keys if name != KEY_VARIABLE),
        *(f"export {name}={shlex.quote(value)}" for name, value in variables.items()),
        shlex.join([client.command, *client.arguments_for(target), *arguments]),
    ]


def run(client: LaunchedClient, target: AgentModel, key: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the client. Raise CommandFailed if it is not installed, or if its
    file cannot be written."""
    program = shutil.which(client.command)
    if program is None:
        raise CommandFailed(
            f"The command `{client.command}` is not installed. Install it with `{client.install}`."
        )
    if (content := client.content(target)) is not None:
        _write(target.file(client.command), content)
    inherited = {name: value for name, value in os.environ.items() if name not in client.removed}
    environment = {**inherited, **client.variables_for(target), **dict.fromkeys(client.keys, key)}
    os.execve(program, [client.command, *client.arguments_for(target), *arguments], environment)


def _write(path: Path, content: object) -> None:
    """Write a file in one step: another client may read it at the same time."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(json.dumps(content, indent=2), encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        raise CommandFailed(
            f"The file {path} cannot be written ({type(error).__name__}). Set XDG_CACHE_HOME to a "
            "folder that you can write to."
        ) from error
