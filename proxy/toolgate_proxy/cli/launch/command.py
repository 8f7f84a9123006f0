"""`toolgate launch`: runs a coding agent with a gateway, its key and a model.

Everything is given in the environment and on the command line of one run. No file of the user is
changed.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, NoReturn

import typer

from . import gateway as gateways
from .main import PASSED_ON, command, examples
from .output import CommandFailed

KEY_VARIABLE = "TOOLGATE_API_KEY"


@dataclass(frozen=True)
class Gateway:
    url: str
    """Without a path."""
    model: str


def _nothing(_: Gateway) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True)
class LaunchedClient:
    command: str
    install: str
    """The command that installs it."""
    key_variables: tuple[str, ...]
    """Environment variables that get the API key."""
    variables: Callable[[Gateway], Mapping[str, str]] = field(default=lambda _: {})
    """Further environment variables."""
    arguments: Callable[[Gateway], tuple[str, ...]] = _nothing
    """Arguments before those of the user."""
    removed: tuple[str, ...] = ()
    """Environment variables that would send requests elsewhere."""


def _claude(gateway: Gateway) -> Mapping[str, str]:
    models = ("ANTHROPIC_MODEL", *(f"ANTHROPIC_DEFAULT_{kind}_MODEL" for kind in MODEL_KINDS))
    return {
        "ANTHROPIC_BASE_URL": gateway.url,
        **dict.fromkeys(models, gateway.model),
        "CLAUDE_CODE_SUBAGENT_MODEL": gateway.model,
        # The gateway refuses tools that are loaded later, and Claude Code would ask again.
        "ENABLE_TOOL_SEARCH": "false",
        # Telemetry, updates and error reports go to Anthropic, not to the gateway.
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }


MODEL_KINDS = ("OPUS", "SONNET", "HAIKU")
"""Claude Code chooses one of three models for a task. All are the gateway's."""


def _codex(gateway: Gateway) -> tuple[str, ...]:
    provider = {
        "name": "Toolgate",
        "base_url": f"{gateway.url}/v1",
        "env_key": KEY_VARIABLE,
        "wire_api": "responses",
    }
    settings = {"model": gateway.model, "model_provider": "toolgate"}
    settings |= {f"model_providers.toolgate.{name}": value for name, value in provider.items()}
    return tuple(
        part for name, value in settings.items() for part in ("-c", f"{name}={json.dumps(value)}")
    )


def _opencode(gateway: Gateway) -> Mapping[str, str]:
    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "name": "Toolgate",
        "options": {"baseURL": f"{gateway.url}/v1", "apiKey": f"{{env:{KEY_VARIABLE}}}"},
        "models": {gateway.model: {"name": gateway.model}},
    }
    model = f"toolgate/{gateway.model}"
    content = {"model": model, "small_model": model, "provider": {"toolgate": provider}}
    return {"OPENCODE_CONFIG_CONTENT": json.dumps(content)}


def _qwen(gateway: Gateway) -> Mapping[str, str]:
    return {"OPENAI_BASE_URL": f"{gateway.url}/v1", "OPENAI_MODEL": gateway.model}


CLIENTS: Mapping[str, LaunchedClient] = {
    "claude": LaunchedClient(
        command="claude",
        install="npm install -g @anthropic-ai/claude-code",
        key_variables=("ANTHROPIC_AUTH_TOKEN",),
        variables=_claude,
        # Claude Code prefers them to the token, or sends its requests to a cloud.
        removed=("ANTHROPIC_API_KEY", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX"),
    ),
    "codex": LaunchedClient(
        command="codex",
        install="npm install -g @openai/codex",
        key_variables=(KEY_VARIABLE,),
        arguments=_codex,
    ),
    "opencode": LaunchedClient(
        command="opencode",
        install="npm install -g opencode-ai",
        key_variables=(KEY_VARIABLE,),
        variables=_opencode,
    ),
    "qwen": LaunchedClient(
        command="qwen",
        install="npm install -g @qwen-code/qwen-code",
        key_variables=("OPENAI_API_KEY",),
        variables=_qwen,
        arguments=lambda _: ("--auth-type", "openai"),
    ),
}
"""By name on the command line."""


@command(
    context_settings=PASSED_ON,
    epilog=examples(
        "toolgate launch codex",
        'toolgate launch claude --model qwen -- -p "List the tests."',
    ),
)
def launch(
    context: typer.Context,
    client: Annotated[str, typer.Argument(help="claude, codex, opencode or qwen.")],
    url: gateways.Url = gateways.DEFAULT_URL,
    model: gateways.Model = None,
    key: gateways.Key = None,
    as_text: Annotated[
        bool, typer.Option("--print", help="Print the shell commands instead of running them.")
    ] = False,
) -> None:
    """Run a coding agent with the gateway.

    The gateway, the key and the model are set for this run only. No file is changed."""
    if client not in CLIENTS:
        raise typer.BadParameter(f"{client!r} is not one of {', '.join(CLIENTS)}.")
    url, key = gateways.root(url), gateways.api_key(url, key)
    gateway = Gateway(url, gateways.chosen_model(url, key, model))
    typer.echo("\n".join(shell_lines(CLIENTS[client], gateway, context.args)), err=not as_text)
    if not as_text:
        run(CLIENTS[client], gateway, key, context.args)


def shell_lines(client: LaunchedClient, gateway: Gateway, arguments: Sequence[str]) -> list[str]:
    """Return what `run` does as shell commands, with the variable of the key instead of the key."""
    keys = (name for name in client.key_variables if name != KEY_VARIABLE)
    variables = client.variables(gateway)
    return [
        *(f"unset {name}" for name in client.removed),
        *(f'export {name}="${KEY_VARIABLE}"' for name in keys),
        *(f"export {name}={shlex.quote(value)}" for name, value in variables.items()),
        shlex.join([client.command, *client.arguments(gateway), *arguments]),
    ]


def run(client: LaunchedClient, gateway: Gateway, key: str, arguments: Sequence[str]) -> NoReturn:
    """Replace this process by the client. Raises CommandFailed if it is not installed."""
    path = shutil.which(client.command)
    if path is None:
        raise CommandFailed(
            f"The command `{client.command}` is not installed. Install it with `{client.install}`."
        )
    inherited = {name: value for name, value in os.environ.items() if name not in client.removed}
    keys = dict.fromkeys(client.key_variables, key)
    environment = {**inherited, **client.variables(gateway), **keys}
    os.execve(path, [client.command, *client.arguments(gateway), *arguments], environment)
