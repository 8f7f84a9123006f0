"""Client libraries in environments of their own, below .cache/clients. They are installed once and
kept until the list of packages changes. `prepare` installs them while servers start."""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import pytest

CLIENTS = Path(__file__).parents[2] / "clients"
CACHE = Path(__file__).parents[3] / ".cache" / "clients"
INSTALL_SECONDS = 300
RUN_SECONDS = 600
"""Only a failure takes so long."""
NOWHERE = "http://127.0.0.1:9"
NO_NETWORK = {"HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE, "NO_PROXY": "127.0.0.1"}


def run_program(command: str, home: Path, url: str, key: str, **more: str) -> list[str]:
    """Run a program of tests/clients, with arguments if the command has some, without network and
    in `home`, against a gateway. Return what it says that it has checked; it must succeed. `more`
    is added to its environment."""
    program, *arguments = command.split()
    if program.endswith(".mjs"):
        interpreter, folder = "node", node_folder()
    else:
        of_anthropic = program.startswith(("use_anthropic", "use_claude"))
        interpreter = str((anthropic_python if of_anthropic else client_python)())
        folder = CLIENTS
    gateway = {"GATEWAY_URL": url, "GATEWAY_KEY": key, "GATEWAY_BIAS": "{}"}
    done = subprocess.run(
        [interpreter, str(folder / program), *arguments],
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home), **gateway, **NO_NETWORK, **more},
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    checked = [line for line in done.stdout.splitlines() if line.startswith("checked:")]
    assert checked
    return checked


def bundled_claude() -> Path:
    """The newer Claude Code in the package of the Claude Agent SDK."""
    packages = anthropic_python().parents[1] / "lib"
    return next(packages.glob("python*/site-packages/claude_agent_sdk/_bundled/claude"))


def node_packages(source: Path, name: str) -> Path:
    """A folder below .cache/clients with the packages of the `package.json` in `source`."""
    return _thread().submit(_alone, lambda: _node_packages(source, CACHE / name)).result()


def prepare(modules: Iterable[str]) -> None:
    """Starts the installation of what the modules of tests with these names use."""
    wanted = {*modules}
    found = [path for path in CLIENTS.parent.rglob("test_*.py") if path.stem in wanted]
    sources = [path.read_text() for path in found]
    for name in MAKERS:
        words = (name, *USED_BY.get(name, ()))
        if any(word in source for source in sources for word in words):
            _made(name)


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)


@cache
def _made(name: str) -> Future[Path]:
    make, *given = MAKERS[name]
    return _thread().submit(_alone, lambda: make(*given))


def _alone(make: Callable[[], Path]) -> Path:
    """Several processes run tests at once, and each would clear what another one installs."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return make()


def _nginx() -> Path:
    if found := shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin"):
        return Path(found)
    if shutil.which("apt-get") is None:
        pytest.skip("nginx is not installed")
    folder = CACHE / "nginx"
    program = folder / "usr" / "sbin" / "nginx"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        get = "apt-get download nginx || { apt-get update && apt-get download nginx; }"
        _install(["sh", "-c", f"{get}; dpkg -x nginx_*.deb ."], cwd=folder)
    _install([str(program), "-v"], cwd=folder)  # its libraries are there
    return program


def _virtual_environment(name: str, packages: str) -> Path:
    uv, folder = Path(sys.executable).with_name("uv"), CACHE / name
    interpreter, requirements = folder / "bin" / "python", CLIENTS / packages
    make = [str(uv), "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)]
    # Compiled once: where PYTHONDONTWRITEBYTECODE is set, each program would compile it all anew.
    fill = [str(uv), "pip", "install", "--quiet", "--compile-bytecode"]
    fill += ["--python", str(interpreter), "-r", str(requirements)]
    stamp = folder / "compiled-requirements.txt"
    if not stamp.exists() or stamp.read_text() != requirements.read_text():
        _install(make, fill, cwd=CACHE)
        shutil.copy(requirements, stamp)
    return interpreter


def _programs() -> Path:
    folder = _node_packages(CLIENTS, CACHE / "node")
    for program in CLIENTS.glob("*.mjs"):
        shutil.copy(program, folder)
    return folder


def _command(name: str, *script: str) -> Path:
    """`script`: puts the program for this platform in its place. npm may not run scripts."""
    place = [["node", f"node_modules/{each}"] for each in script]
    folder = _node_packages(CLIENTS / name, CACHE / name, *place)
    return folder / "node_modules" / ".bin" / name


def _node_packages(source: Path, folder: Path, *afterwards: list[str]) -> Path:
    """`afterwards`: commands that complete the installation."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    wanted = (source / "package.json").read_text()
    stamp = folder / "installed.json"
    shutil.copy(source / "package.json", folder)
    if not stamp.exists() or stamp.read_text() != wanted:
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund"]
        _install(install, *afterwards, cwd=folder)
        stamp.write_text(wanted)
    return folder


def _install(*commands: list[str], cwd: Path) -> None:
    """Skips the test if the packages can't be installed."""
    for command in commands:
        try:
            done = subprocess.run(
                command,
                cwd=cwd,
                env={**os.environ, "npm_config_update_notifier": "false"},
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"{command[0]}: {error}")
        if done.returncode:
            pytest.skip(f"{' '.join(command[:3])} failed: {done.stderr[-300:]}")


MAKERS: dict[str, tuple[Any, ...]] = {
    "client_python": (_virtual_environment, "venv", "requirements.txt"),
    "anthropic_python": (_virtual_environment, "anthropic", "requirements-anthropic.txt"),
    # Published MCP servers, which need an older release of the package `mcp`.
    "mcp_python": (_virtual_environment, "mcp", "requirements-mcp.txt"),
    "router_python": (_virtual_environment, "routers", "requirements-routers.txt"),
    # The system's, or Debian's package.
    "nginx_command": (_nginx,),
    # The packages of the clients' `package.json`, and their programs.
    "node_folder": (_programs,),
    # In folders of their own, because they take 400 MB.
    "codex_command": (_command, "codex"),
    "claude_command": (_command, "claude", "@anthropic-ai/claude-code/install.cjs"),
    "opencode_command": (_command, "opencode", "opencode-ai/postinstall.mjs"),
}
USED_BY = {
    "client_python": ("run_program",),
    "anthropic_python": ("bundled_claude", "run_program"),
    "node_folder": ("run_program",),
    "codex_command": ("run_codex",),
    "claude_command": ("run_claude",),
    "opencode_command": ("run_opencode",),
    "router_python": ("servers.routers",),
    "nginx_command": ("servers.routers",),
}
"""Functions that need them."""


def _getter(name: str) -> Callable[[], Path]:
    return lambda: _made(name).result()


client_python, anthropic_python, mcp_python, router_python = map(_getter, [*MAKERS][:4])
"""Interpreters of virtual environments. They skip the test if it can't be made."""
nginx_command, node_folder, codex_command, claude_command, opencode_command = map(
    _getter, [*MAKERS][4:]
)
"""Programs, and a folder of programs, below .cache/clients."""
