"""The master key that `toolgate serve` and `demo` generate, kept between starts.

`$XDG_CONFIG_HOME/toolgate/master_key`, by default `~/.config/toolgate/master_key`, readable by its
owner only. A client that was given the key thus works after the next start. The variable
TOOLGATE_MASTER_KEY takes precedence, and the file is then neither read nor written.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from .stack.processes import StackFailed

MODE = 0o600
OTHERS = stat.S_IRWXG | stat.S_IRWXO


class BadKeyFile(StackFailed):
    """The file can't be used. The message has its path and what to do, but not the key."""


def key_path() -> Path:
    # An empty or relative value counts as unset (XDG Base Directory Specification).
    configured = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    folder = configured if configured.is_absolute() else Path.home() / ".config"
    return folder / "toolgate" / "master_key"


def read_key(path: Path) -> str | None:
    """Return None if there is no file. Raises BadKeyFile."""
    try:
        with path.open(encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            key = file.read().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise _bad(path, f"it can't be read ({type(error).__name__})") from error
    if status.st_uid != os.getuid() or status.st_mode & OTHERS:
        raise _bad(path, "other users may read it")
    if not key:
        raise _bad(path, "it is empty")
    return key


def kept_key(path: Path) -> str:
    """Return the key in the file, which is generated if there is none. Raises BadKeyFile."""
    while (key := read_key(path)) is None:
        generated = f"sk-{secrets.token_urlsafe(24)}"
        partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
            with os.fdopen(descriptor, "w") as file:
                file.write(f"{generated}\n")
            try:
                os.link(partial, path)  # fails if another start was faster
            finally:
                partial.unlink()
        except FileExistsError:
            continue
        except OSError as error:
            raise _bad(path, f"it can't be written ({type(error).__name__})") from error
    return key


def _bad(path: Path, problem: str) -> BadKeyFile:
    return BadKeyFile(
        f"The master key is kept in {path}, but {problem}. Run `chmod 600 {path}`, remove the "
        "file, or set TOOLGATE_MASTER_KEY."
    )
