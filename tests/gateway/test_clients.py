"""Client libraries in environments of their own, each by its program in tests/clients."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Stack

CLIENTS = Path(__file__).parents[1] / "clients"
CACHE = Path(__file__).parents[2] / ".cache" / "clients"
INSTALL_SECONDS, RUN_SECONDS = 300, 300


def run(command: list[str], cwd: Path, url: str, key: str, bias: dict[str, float]) -> None:
    environment = {
        **os.environ,
        "GATEWAY_URL": url,
        "GATEWAY_KEY": key,
        "GATEWAY_BIAS": json.dumps(bias),
        "NO_PROXY": "*",
    }
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert "checked:" in done.stdout


def install(*commands: list[str], cwd: Path) -> None:
    """Skips where the packages can't be had."""
    for command in commands:
        try:
            done = subprocess.run(
                command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_SECONDS
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            pytest.skip(f"{command[0]}: {error}")
        if done.returncode:
            pytest.skip(f"{' '.join(command[:3])} failed: {done.stderr[-300:]}")


@pytest.fixture(scope="session")
def python() -> Path:
    """The interpreter of a virtual environment with the clients in it."""
    CACHE.mkdir(parents=True, exist_ok=True)
    uv = Path(sys.executable).with_name("uv")
    interpreter = CACHE / "venv" / "bin" / "python"
    requirements = CLIENTS / "requirements.txt"
    make = [str(uv), "venv", "--quiet", "--clear", "--python", sys.executable, str(CACHE / "venv")]
    fill = [str(uv), "pip", "install", "--quiet", "--python", str(interpreter)]
    stamp = CACHE / "venv" / "requirements.txt"
    if not stamp.exists() or stamp.read_text() != requirements.read_text():
        install(make, [*fill, "-r", str(requirements)], cwd=CACHE)
        shutil.copy(requirements, stamp)
    return interpreter


@pytest.fixture(scope="session")
def node() -> Path:
    """A folder with the program and its packages beside it."""
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    folder = CACHE / "node"
    folder.mkdir(parents=True, exist_ok=True)
    wanted = (CLIENTS / "package.json").read_text()
    stamp = folder / "installed.json"
    shutil.copy(CLIENTS / "package.json", folder)
    if not stamp.exists() or stamp.read_text() != wanted:
        install(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=folder)
        stamp.write_text(wanted)
    return folder


@pytest.mark.parametrize("name", ["openai", "langchain", "instructor", "pydantic_ai"])
def test_a_python_client(
    name: str, python: Path, url: str, stack: Stack, bias: dict[str, float]
) -> None:
    script = str(CLIENTS / f"use_{name}.py")
    run([str(python), script], CLIENTS, url, stack.master_key, bias)


def test_the_vercel_sdk(node: Path, url: str, stack: Stack, bias: dict[str, float]) -> None:
    shutil.copy(CLIENTS / "use_vercel.mjs", node)
    run(["node", "use_vercel.mjs"], node, url, stack.master_key, bias)
