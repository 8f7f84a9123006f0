"""The extras of the distribution: are their packages installed, and how are they installed?

Only a few packages of each extra are checked; pip installs them together. It takes the requirements
of an extra from the installation, wherever that came from.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

from . import CommandFailed

DISTRIBUTION = "toolgate-gateway"
"""Its name at the package index. `toolgate` belongs to others there."""
PACKAGES = {
    "proxy": ("litellm", "fastapi", "uvicorn", "httpx", "aiohttp", "orjson", "lark"),
    "backend": ("vllm", "xgrammar", "llguidance"),
    "demo": ("openai", "jsonschema"),
    "verify": ("toolgate_verify",),
}
"""Packages by extra. The demo's Redis and its model are looked for when they are needed."""
FOLDERS = {"demo": "demo_model", "verify": "verify"}
"""Folders of a clone with distributions of ours that extras require."""
SOURCE = Path(__file__).parents[3]
"""The clone, if Toolgate runs in one."""


def check(what: str, *extras: str) -> None:
    """Raise CommandFailed, with the command that installs it, if a package of an extra is not
    installed. `what`: the beginning of the sentence, such as "`toolgate serve`"."""
    packages = {each: [it for it in PACKAGES[each] if find_spec(it) is None] for each in extras}
    missing = {extra: absent[0] for extra, absent in packages.items() if absent}
    if not missing:
        return
    names = ", ".join(missing.values()) + (" is" if len(missing) == 1 else " are")
    lacks = f"{what} needs packages that are not installed ({names} missing)"
    raise CommandFailed(f"{lacks}: run {install_command(*missing)}")


def install_command(*extras: str) -> str:
    """Return the shell command that adds the extras to this installation."""
    on_cpu = "backend" in extras and shutil.which("nvidia-smi") is None
    clone = SOURCE if (SOURCE / "core" / "toolgate_core").is_dir() else None
    if clone is not None and Path(sys.prefix) == clone / ".venv":
        return f"make -C {shlex.quote(str(clone))} setup"  # chooses vLLM's build for the machine
    named = ",".join(f"{each}-cpu" if on_cpu and each == "backend" else each for each in extras)
    folders = [str(clone / FOLDERS[each]) for each in extras if clone and each in FOLDERS]
    return package_command(f"{clone or DISTRIBUTION}[{named}]", *folders, torch_on_cpu=on_cpu)


def package_command(*packages: str, torch_on_cpu: bool = False) -> str:
    """Return the shell command that installs packages."""
    python = [sys.executable, "-m"]
    pip = [*python, "pip", "install"] if find_spec("pip") is not None else None
    if pip is not None and not torch_on_cpu:
        return shlex.join([*pip, *packages])
    # Only uv chooses PyTorch's package index. Without pip, uv has made this environment.
    first, uv = "", ["uv"]
    if pip is not None and shutil.which("uv") is None:
        uv = [*python, "uv"]
        if find_spec("uv") is None:
            first = shlex.join([*pip, "uv"]) + " && "
    backend = ["--torch-backend", "cpu"] if torch_on_cpu else []
    options = ["--python", sys.executable, *backend]
    return first + shlex.join([*uv, "pip", "install", *options, *packages])
