"""The master key for commands that ask a gateway."""

from __future__ import annotations

from urllib.parse import urlsplit

import typer
from pydantic import SecretStr

from ..settings import settings
from ..stack.key_file import BadKeyFile, key_path, read_key

LOCAL = ("127.0.0.1", "localhost", "::1")
NO_MASTER_KEY = "TOOLGATE_MASTER_KEY is not set. Set it to the master key of the gateway."


def master_key(url: str) -> SecretStr:
    """TOOLGATE_MASTER_KEY. For a gateway on this machine also the key that `toolgate serve` keeps,
    which is sent to no other host. Raises typer.BadParameter if there is none."""
    found = find_master_key(url)
    if found is None:
        raise typer.BadParameter(NO_MASTER_KEY)
    return found


def find_master_key(url: str) -> SecretStr | None:
    """As `master_key`; None if there is none."""
    configured = settings().master_key
    if configured is not None or urlsplit(url).hostname not in LOCAL:
        return configured
    try:
        kept = read_key(key_path())
    except BadKeyFile as error:
        raise typer.BadParameter(str(error)) from error
    return SecretStr(kept) if kept is not None else None


def api_key(url: str, given: str | None) -> str:
    """The API key of a client: the option `--key`, or the master key as in `find_master_key`.
    Raises typer.BadParameter if there is none."""
    if given:
        return given
    found = find_master_key(url)
    if found is None:
        raise typer.BadParameter("Set --key or TOOLGATE_API_KEY to an API key of the gateway.")
    return found.get_secret_value()
