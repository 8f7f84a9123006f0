"""The servers that are measured: vLLM as it comes, vLLM with strict tools, and ours.

On a CPU build vLLM gets the same flags from us as under Toolgate: without them seeded requests kill
it, and on few cores it starves itself.
"""

import json
import os
import re
import shlex
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

from toolgate_backend import launch
from toolgate_proxy.stack.processes import free_port

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / ".cache" / "contenders"
"""Their logs."""
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
    pass


def leave_on_sigterm() -> None:
    """A terminated bench must still stop what it started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


@dataclass
class Server:
    process: subprocess.Popen[bytes]
    url: str
    key: str

    def get(self, path: str) -> bytes:
        """A GET that answers or raises OSError (urllib's errors are OSErrors)."""
        request = urllib.request.Request(
            self.url + path, headers={"Authorization": f"Bearer {self.key}"}
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            return bytes(answer.read())

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
    """`flags` are vLLM's, or of `toolgate serve`, which hands on what it does not know."""
    if contender == "toolgate":
        make = ("make", "-C", str(ROOT), "--no-print-directory")
        arguments = shlex.join(flags).replace("$", "$$")  # make would expand it
        return [*make, "serve", f"MODEL={model}", f"PORT={port}", f"ARGS={arguments}"]
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
        # Default 5 s: a pooled connection closed just as it is used again would count as an error.
        "VLLM_HTTP_TIMEOUT_KEEP_ALIVE": "300",
        "TOOLGATE_MASTER_KEY": MASTER_KEY,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "backend"), str(ROOT / "core")]),
    }
    if contender != "toolgate":
        # Without it vLLM loads every plug-in that is installed, so also ours.
        env["VLLM_PLUGINS"] = ""
        env.pop("VLLM_API_KEY", None)  # it is asked with any
    return {**env, **extra}


def family(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The process and all it has started, as long as it lives itself."""
    try:
        own = psutil.Process(process.pid)
        return [own, *own.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def stop(process: subprocess.Popen[bytes], known: Iterable[psutil.Process]) -> None:
    """Ask the process group to end, then end whatever is left: of what is `known`, and of the
    family as it is now."""
    everybody = {*known, *family(process)}
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    _, left = psutil.wait_procs(everybody, timeout=30)
    for each in left:
        with suppress(psutil.NoSuchProcess):
            each.kill()
    psutil.wait_procs(left, timeout=10)


def wait_ready(server: Server, contender: str, log: Path, patience: float) -> None:
    deadline = time.monotonic() + patience
    while server.process.poll() is None and time.monotonic() < deadline:
        announced = contender != "toolgate"  # vLLM announces nothing: only asking tells
        if match := re.search(r"TOOLGATE READY (http://\S+)", log.read_text(errors="replace")):
            server.url, announced = match[1].rstrip("/"), True
        if announced and server.alive():
            return
        time.sleep(0.5)
    ended = server.process.poll()
    how = "was not ready in time" if ended is None else f"ended with {ended}"
    tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
    raise NotStarted(f"{contender} {how}:\n{tail}")


@contextmanager
def running(
    contender: str,
    model: Path,
    max_model_len: int = 4096,
    patience: float = 300,
    nice: int = 0,
    label: str | None = None,
    flags: Sequence[str] = (),
    env: Mapping[str, str] = {},
) -> Iterator[Server]:
    """The contender, ready, its log in `OUT` under `label`; ended after. `patience` in seconds;
    `flags` and `env` come after what it is started with anyway, and so win.

    Raises NotStarted with the end of the log.
    """
    OUT.mkdir(parents=True, exist_ok=True)
    port, known = free_port(), list[psutil.Process]()
    log = OUT / f"{label or contender}-{model.name}.server.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            ["nice", "-n", str(nice), *command(contender, model, port, max_model_len, flags)],
            cwd=ROOT,
            env=environment(contender, env),
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        key = MASTER_KEY if contender == "toolgate" else "x"
        server = Server(process, f"http://127.0.0.1:{port}", key)
        started = time.monotonic()
        wait_ready(server, contender, log, patience)
        print(
            f"{contender} on {model.name}: ready in {time.monotonic() - started:.0f} s", flush=True
        )
        known = family(process)
        yield server
    finally:
        stop(process, known)
