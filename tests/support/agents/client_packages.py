"""Client libraries in environments of their own, below .cache/clients. They are installed once and
kept until the list of packages changes. `prepare` installs them while servers start."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

CLIENTS = Path(__file__).parents[2] / "clients"
CACHE = Path(__file__).parents[3] / ".cache" / "clients"
INSTALL_SECONDS = 300


def client_python() -> Path:
    """The interpreter of a virtual environment with `requirements.txt` of the clients. Skips the
    test if it can't be made."""
    return _made(_make_python).result()


def anthropic_python() -> Path:
    """The interpreter of a virtual environment with `requirements-anthropic.txt`."""
    return _made(_make_anthropic_python).result()


def mcp_python() -> Path:
    """The interpreter of a virtual environment with `requirements-mcp.txt`: published MCP servers,
    which need an older release of the package `mcp`."""
    return _made(_make_mcp_python).result()


def router_python() -> Path:
    """The interpreter of a virtual environment with `requirements-routers.txt`."""
    return _made(_make_router_python).result()


def nginx_command() -> Path:
    """nginx: the system's, or Debian's package, unpacked below .cache/clients."""
    return _made(_make_nginx).result()


def node_folder() -> Path:
    """A folder with the packages of the clients' `package.json` and with their programs."""
    return _made(_make_node_folder).result()


def codex_command() -> Path:
    """Codex CLI, in a folder of its own because it takes 400 MB."""
    return _made(_make_codex).result()


def claude_command() -> Path:
    """Claude Code, in a folder of its own because it takes 300 MB."""
    return _made(_make_claude).result()


def opencode_command() -> Path:
    """OpenCode, in a folder of its own because it takes 400 MB."""
    return _made(_make_opencode).result()


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
    needs = {
        _make_node_folder: ("node_folder",),
        _make_codex: ("codex_command", "run_codex"),
        _make_claude: ("claude_command", "run_claude"),
        _make_opencode: ("opencode_command", "run_opencode"),
        _make_python: ("client_python",),
        _make_mcp_python: ("mcp_python",),
        _make_anthropic_python: ("anthropic_python", "bundled_claude"),
        _make_router_python: ("servers.routers",),
        _make_nginx: ("servers.routers",),
    }
    for make, names in needs.items():
        if any(name in source for source in sources for name in names):
            _made(make)


@cache
def _thread() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(1)


@cache
def _made(make: Callable[[], Path]) -> Future[Path]:
    return _thread().submit(_alone, make)


def _alone(make: Callable[[], Path]) -> Path:
    """Several processes run tests at once, and each would clear what another one installs."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return make()


def _make_python() -> Path:
    return _virtual_environment("venv", "requirements.txt")


def _make_anthropic_python() -> Path:
    return _virtual_environment("anthropic", "requirements-anthropic.txt")


def _make_mcp_python() -> Path:
    return _virtual_environment("mcp", "requirements-mcp.txt")


def _make_router_python() -> Path:
    return _virtual_environment("routers", "requirements-routers.txt")


def _make_nginx() -> Path:
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


def _make_node_folder() -> Path:
    folder = _node_packages(CLIENTS, CACHE / "node")
    for program in CLIENTS.glob("*.mjs"):
        shutil.copy(program, folder)
    return folder


def _make_codex() -> Path:
    folder = _node_packages(CLIENTS / "codex", CACHE / "codex")
    return folder / "node_modules" / ".bin" / "codex"


def _make_claude() -> Path:
    # Puts the program for this platform in its place. npm may not run the scripts of packages.
    place = ["node", "node_modules/@anthropic-ai/claude-code/install.cjs"]
    folder = _node_packages(CLIENTS / "claude", CACHE / "claude", place)
    return folder / "node_modules" / ".bin" / "claude"


def _make_opencode() -> Path:
    # Links the program for this platform.
    place = ["node", "node_modules/opencode-ai/postinstall.mjs"]
    folder = _node_packages(CLIENTS / "opencode", CACHE / "opencode", place)
    return folder / "node_modules" / ".bin" / "opencode"


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
