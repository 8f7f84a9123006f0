"""The gateway that a command uses: its URL, its keys and requests to it.

The master key that `toolgate serve` and `demo` generate is kept between starts in
`$XDG_CONFIG_HOME/toolgate/master_key`, by default `~/.config/toolgate/master_key`, readable by its
owner only. A client that was given the key thus works after the next start. The variable
TOOLGATE_MASTER_KEY takes precedence, and the file is then neither read nor written.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from ..settings import settings
from . import CommandFailed

LOCAL = ("127.0.0.1", "localhost", "::1")
PORT = 4000
DEFAULT_URL = f"http://127.0.0.1:{PORT}"
GET_SECONDS = 10.0
POST_SECONDS = 600.0
"""Time limit for tools, which may be compiled."""

Url = Annotated[str, typer.Option(help="URL of the gateway.")]
Model = Annotated[str | None, typer.Option(help="Model name. Default: the gateway's only model.")]
Key = Annotated[
    str | None,
    typer.Option(
        envvar=["TOOLGATE_API_KEY", "TOOLGATE_MASTER_KEY"],
        help="API key of the gateway. Default for a gateway on this machine: the key that "
        "`toolgate serve` keeps.",
    ),
]


def user_folder(variable: str, default: str) -> Path:
    """Return our folder in one of the user's. An empty or relative value of the variable counts as
    unset (XDG Base Directory Specification)."""
    configured = Path(os.environ.get(variable, ""))
    return (configured if configured.is_absolute() else Path.home() / default) / "toolgate"


def key_path() -> Path:
    return user_folder("XDG_CONFIG_HOME", ".config") / "master_key"


def read_key(path: Path) -> str | None:
    """Return None if there is no file. Raise CommandFailed."""
    try:
        with path.open(encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            key = file.read().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _bad(path, f"it cannot be read ({type(error).__name__})") from error
    if status.st_uid != os.getuid() or status.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise _bad(path, "other users may read it")
    if not key:
        raise _bad(path, "it is empty")
    return key


def kept_key(path: Path) -> str:
    """Return the key in the file, which is generated if there is none. Raise CommandFailed."""
    while (key := read_key(path)) is None:
        generated = f"sk-{secrets.token_urlsafe(24)}"
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(f"{generated}\n")
            try:
                os.link(partial, path)  # fails if another start was faster
            finally:
                partial.unlink()
        except FileExistsError:
            continue
        except OSError as error:
            raise _bad(path, f"it cannot be written ({type(error).__name__})") from error
    return key


def _bad(path: Path, problem: str) -> CommandFailed:
    """Return the error, which has the path and what to do, but not the key."""
    return CommandFailed(
        f"The master key is kept in {path}, but {problem}. Run `chmod 600 {path}`, remove the "
        "file, or set TOOLGATE_MASTER_KEY."
    )


def root(url: str) -> str:
    """Return the URL of a gateway without a path."""
    return url.rstrip("/").removesuffix("/v1")


def find_master_key(url: str) -> str | None:
    """Return TOOLGATE_MASTER_KEY. For a gateway on this machine also the key that `toolgate serve`
    keeps, which is sent to no other host. Raise CommandFailed if its file cannot be used."""
    if (configured := settings().master_key) is not None:
        return configured.get_secret_value()
    return read_key(key_path()) if urlsplit(url).hostname in LOCAL else None


def master_key(url: str) -> str:
    """Return the key of `find_master_key`. Raise typer.BadParameter if there is none."""
    if (key := find_master_key(url)) is None:
        raise typer.BadParameter(
            "TOOLGATE_MASTER_KEY is not set. Set it to the master key of the gateway."
        )
    return key


def request(url: str, key: str | None, content: object = None) -> tuple[int, Any]:
    """Send a GET request, or a POST request with `content`. Return the status and the JSON body,
    or 0 and the name of the error if there is no response."""
    import httpx

    try:
        response = httpx.request(
            "GET" if content is None else "POST",
            url,
            json=content,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            timeout=GET_SECONDS if content is None else POST_SECONDS,
            trust_env=False,
        )
    except httpx.HTTPError as error:
        return 0, type(error).__name__
    try:
        return response.status_code, response.json()
    except ValueError:
        return response.status_code, None


def ask(url: str, key: str, path: str, content: object = None) -> dict[str, Any]:
    """Return the JSON body of the gateway's response. Raise CommandFailed."""
    status, body = request(f"{root(url)}{path}", key, content)
    if status == 0:
        raise CommandFailed(
            f"The gateway at {url} cannot be reached ({body}). Start it with `toolgate serve` or "
            "`toolgate proxy`, or set --url."
        )
    if status < 300 and isinstance(body, dict):
        return body
    refusal = body.get("error") if isinstance(body, dict) else None
    message = refusal.get("message") if isinstance(refusal, dict) else None
    hint = "Check --url."
    if status in (401, 403):
        hint = "Set --key, TOOLGATE_API_KEY or TOOLGATE_MASTER_KEY to a key of the gateway."
    raise CommandFailed(message or f"The gateway at {url} responded with status {status}. {hint}")


def models(url: str, key: str) -> list[str]:
    """Return the names of the models that the gateway serves. Raise CommandFailed."""
    listed = ask(url, key, "/v1/models").get("data")
    if not isinstance(listed, list):
        raise CommandFailed(f"The server at {url} lists no models. Check --url.")
    return [str(model["id"]) for model in listed]


def chosen_model(url: str, key: str, wanted: str | None) -> str:
    """Return `wanted`, if the gateway has it, or the gateway's only model. Raise CommandFailed."""
    names = models(url, key)
    known = ", ".join(names) or "none"
    if wanted is not None and wanted not in names:
        raise CommandFailed(f"The gateway has no model {wanted!r}. Use one of: {known}.")
    if wanted is None and len(names) != 1:
        raise CommandFailed(f"The gateway has {len(names)} models. Set --model to one of: {known}.")
    return wanted or names[0]
