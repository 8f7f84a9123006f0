"""`toolgate launch`: runs a coding agent with this gateway, its key and a model."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import httpx

from .clients import KEY_VARIABLE, Gateway, LaunchedClient

TIMEOUT = 10.0


class NotLaunched(Exception):
    """The message says what is missing, and what to do."""


def model_of(url: str, key: str, wanted: str | None) -> str:
    """`wanted`, if the gateway has it, or the gateway's only model. Raises NotLaunched."""
    try:
        response = httpx.get(
            f"{url}/v1/models",
            headers={"Authorization": f"Bearer {key}"},
            timeout=TIMEOUT,
            trust_env=False,
        )
        response.raise_for_status()
        listed: list[Any] = response.json()["data"]
        names = [str(model["id"]) for model in listed]
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        hint = f"Set --key or {KEY_VARIABLE}." if status in (401, 403) else "Check --url."
        raise NotLaunched(
            f"The gateway at {url} answered the list of models with HTTP status {status}. {hint}"
        ) from error
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise NotLaunched(
            f"The gateway at {url} can't be reached ({type(error).__name__}). Start it with "
            "`toolgate serve` or `toolgate proxy`, or set --url."
        ) from error
    if wanted is not None and wanted not in names:
        raise NotLaunched(
            f"The gateway has no model {wanted!r}. Use one of: {', '.join(names) or 'none'}."
        )
    if wanted is None and len(names) != 1:
        raise NotLaunched(
            f"The gateway has {len(names)} models. Choose one with --model: {', '.join(names)}."
        )
    return wanted or names[0]


def shell_lines(client: LaunchedClient, gateway: Gateway, arguments: Sequence[str]) -> list[str]:
    """The same as shell commands. The key is not in them, but the variable that has it."""
    variables = client.variables(gateway)
    return [
        *(f"unset {name}" for name in client.removed),
        *(
            f'export {name}="${KEY_VARIABLE}"'
            for name in client.key_variables
            if name != KEY_VARIABLE
        ),
        *(f"export {name}={shlex.quote(value)}" for name, value in variables.items()),
        shlex.join([client.command, *client.arguments(gateway), *arguments]),
    ]


def environment(
    client: LaunchedClient, gateway: Gateway, key: str, inherited: Mapping[str, str]
) -> dict[str, str]:
    kept = {name: value for name, value in inherited.items() if name not in client.removed}
    keys = dict.fromkeys(client.key_variables, key)
    return {**kept, **client.variables(gateway), **keys}


def run(client: LaunchedClient, gateway: Gateway, key: str, arguments: Sequence[str]) -> NoReturn:
    """Replaces this process by the client. Raises NotLaunched if it is not installed."""
    path = shutil.which(client.command)
    if path is None:
        raise NotLaunched(
            f"The command `{client.command}` is not installed. Install it with `{client.install}`."
        )
    command = [client.command, *client.arguments(gateway), *arguments]
    os.execve(path, command, environment(client, gateway, key, os.environ))
