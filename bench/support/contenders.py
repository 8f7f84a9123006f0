"""The servers that are compared: plain vLLM, vLLM with strict tools, and Toolgate.

vLLM's CPU build gets the same flags as under Toolgate. Without them, seeded requests crash it, and
on few cores its threads compete with each other.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.models import ROOT
from toolgate_backend import launch
from toolgate_proxy.ops.stack.processes import free_port

OUT = ROOT / ".cache" / "contenders"
"""Directory of the servers' logs."""
MASTER_KEY = os.environ.get("TOOLGATE_MASTER_KEY", "sk-bench")

VLLM = [
    "--enable-auto-tool-choice",
    *("--tool-call-parser", "hermes"),
    *("--reasoning-parser", "qwen3"),
    *("--max-num-seqs", "32"),
]
FLAGS = {"vllm": VLLM, "vllm-strict": [*VLLM, "--tool-strict-level", "parameter"]}
CONTENDERS = (*FLAGS, "toolgate")


class NotStarted(RuntimeError):
    """A server did not become ready. The message contains the end of its log."""


def exit_on_sigterm() -> None:
    """Exit normally on SIGTERM, so that the started servers are stopped."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    url: str
    key: str

    def get(self, path: str) -> bytes:
        """The body of the response to a GET. Raises OSError; urllib's errors are OSErrors."""
        request = urllib.request.Request(
            self.url + path, headers={"Authorization": f"Bearer {self.key}"}
        )
        with urllib.request.urlopen(request, timeout=10) as response:
            return bytes(response.read())

    def model_name(self) -> str:
        return str(json.loads(self.get("/v1/models"))["data"][0]["id"])

    def alive(self) -> bool:
        if self.process.poll() is not None:
            return False
        try:
            self.get("/v1/models")
        except OSError:
            return False
        return True


def command(
    contender: str, model: Path, port: int, max_model_len: int, flags: Sequence[str] = ()
) -> list[str]:
    """`flags` are for vLLM, or for `toolgate serve`, which passes unknown ones on to vLLM."""
    if contender == "toolgate":
        program = str(Path(sys.executable).with_name("toolgate"))
        return [program, "serve", str(model), "--port", str(port), *flags]
    return [
        *(sys.executable, "-m", "toolgate_backend.vllm_cli", "serve", str(model)),
        *("--host", "127.0.0.1", "--port", str(port), "--served-model-name", model.name),
        *launch.cpu_flags(str(model), ["--max-model-len", str(max_model_len)]),
        *FLAGS[contender],
        *flags,
    ]


def environment(contender: str, extra: Mapping[str, str] = {}) -> dict[str, str]:
    env = {
        **os.environ,
        "HF_HUB_OFFLINE": "1",
        **launch.cpu_environment(os.environ),
        "VLLM_NO_USAGE_STATS": "1",
        # By default idle connections are closed after 5 s, possibly while a client reuses one.
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "300",
        "TOOLGATE_MASTER_KEY": MASTER_KEY,
        "PYTHONPATH": os.pathsep.join(str(ROOT / each) for each in ("proxy", "backend", "core")),
    }
    if contender != "toolgate":
        # Unset, vLLM loads every installed plug-in, including Toolgate's.
        env["VLLM_PLUGINS"] = ""
        env.pop("VLLM_API_KEY", None)  # any key is accepted
    return {**env, **extra}


def process_tree(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The process and its descendants. Empty if the process has ended."""
    try:
        own = psutil.Process(process.pid)
        return [own, *own.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def stop(process: subprocess.Popen[bytes], known: Iterable[psutil.Process]) -> None:
    """Terminate the process group. After 30 s, kill what is left of it and of `known`."""
    processes = {*known, *process_tree(process)}
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    _, alive = psutil.wait_procs(processes, timeout=30)
    for each in alive:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(alive, timeout=10)


def spawn(command: Sequence[str], env: Mapping[str, str], log: Path) -> subprocess.Popen[bytes]:
    """Start a server in a process group of its own, with its output in `log`."""
    OUT.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as sink:
        return subprocess.Popen(
            command,
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def wait_ready(server: Server, contender: str, log: Path, ready_timeout: float) -> None:
    deadline = time.monotonic() + ready_timeout
    while server.process.poll() is None and time.monotonic() < deadline:
        announced = contender != "toolgate"  # vLLM prints no such line
        if match := re.search(r"TOOLGATE READY (http://\S+)", log.read_text(errors="replace")):
            server.url, announced = match[1].rstrip("/"), True
        if announced and server.alive():
            return
        time.sleep(0.5)
    ended = server.process.poll()
    how = "was not ready in time" if ended is None else f"exited with status {ended}"
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    raise NotStarted(f"{contender} {how}:\n{tail}")


def log_of(label: str, model: Path) -> Path:
    """Return the path of a server's log."""
    return OUT / f"{label}-{model.name}.server.log"


@contextmanager
def running(
    contender: str,
    model: Path,
    max_model_len: int = 4096,
    ready_timeout: float = 300,
    nice: int = 0,
    label: str | None = None,
    flags: Sequence[str] = (),
    env: Mapping[str, str] = {},
) -> Iterator[Server]:
    """Start a contender, yield it when it is ready, and stop it in the end.

    The log is in `OUT`; `label` is part of its name. `ready_timeout` is in seconds. `flags` and
    `env` override the defaults. Raises NotStarted.
    """
    port, known = free_port(), list[psutil.Process]()
    log = log_of(label or contender, model)
    nicely = ["nice", "-n", str(nice), *command(contender, model, port, max_model_len, flags)]
    process = spawn(nicely, environment(contender, env), log)
    try:
        key = MASTER_KEY if contender == "toolgate" else "x"
        server = Server(process, f"http://127.0.0.1:{port}", key)
        started = time.monotonic()
        wait_ready(server, contender, log, ready_timeout)
        print(
            f"{contender} on {model.name}: ready in {time.monotonic() - started:.0f} s", flush=True
        )
        known = process_tree(process)
        yield server
    finally:
        stop(process, known)
