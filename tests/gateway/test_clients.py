"""Client libraries in environments of their own, each with its program in tests/clients."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

import pytest

from .servers import Gateway

CLIENTS = Path(__file__).parents[1] / "clients"
CACHE = Path(__file__).parents[2] / ".cache" / "clients"
INSTALL_SECONDS, RUN_SECONDS = 300, 300
AT_ONCE = ("langchain", "pydantic_ai", "instructor", "vercel")
ALONE = "openai"
"""Compares seeded answers, and what else is in the engine's batch can change a sampled token."""

Programs = dict[str, Future[None]]
"""The programs that run at once against one gateway."""


def run(command: list[str], cwd: Path, gateway: Gateway, bias: dict[str, float]) -> None:
    environment = {
        **os.environ,
        "GATEWAY_URL": gateway.url,
        "GATEWAY_KEY": gateway.key,
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
    """Skip the test if the packages cannot be installed."""
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
    # Compiled once: where PYTHONDONTWRITEBYTECODE is set, each program would compile it all anew.
    fill = [str(uv), "pip", "install", "--quiet", "--compile-bytecode"]
    fill += ["--python", str(interpreter), "-r", str(requirements)]
    stamp = CACHE / "venv" / "compiled-requirements.txt"
    if not stamp.exists() or stamp.read_text() != requirements.read_text():
        install(make, fill, cwd=CACHE)
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
    shutil.copy(CLIENTS / "use_vercel.mjs", folder)
    return folder


@pytest.fixture(scope="module")
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(len(AT_ONCE)) as pool:
        yield pool


@pytest.fixture(scope="module")
def started() -> dict[Gateway, Programs]:
    """Empty until the first test of a gateway starts the programs that run at once."""
    return {}


@pytest.mark.parametrize("name", [*AT_ONCE, ALONE])
def test_a_client_librarys_program_succeeds(
    name: str,
    request: pytest.FixtureRequest,
    pool: ThreadPoolExecutor,
    started: dict[Gateway, Programs],
    gateway: Gateway,
    bias: dict[str, float],
) -> None:
    if gateway not in started:
        started[gateway] = {}
        for each in AT_ONCE:
            with suppress(pytest.skip.Exception):  # its own test skips
                if each in collected(request):
                    future = pool.submit(run, *command(each, request), gateway, bias)
                    started[gateway][each] = future
    if name in started[gateway]:
        started[gateway][name].result()
    else:
        wait(started[gateway].values())
        run(*command(name, request), gateway, bias)


def command(name: str, request: pytest.FixtureRequest) -> tuple[list[str], Path]:
    """Return the command and its directory. Skips the test if its packages cannot be installed."""
    if name == "vercel":
        return ["node", "use_vercel.mjs"], request.getfixturevalue("node")
    return [str(request.getfixturevalue("python")), f"use_{name}.py"], CLIENTS


def collected(request: pytest.FixtureRequest) -> set[str]:
    """Return the programs whose tests run."""
    items = [item for item in request.session.items if item.path == Path(__file__)]
    return {item.callspec.params["name"] for item in items if isinstance(item, pytest.Function)}
