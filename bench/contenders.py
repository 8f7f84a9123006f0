"""The servers that are measured: vLLM as it comes, vLLM with strict tools, and ours.

On a CPU build vLLM gets the same flags from us as under Toolgate: without them seeded requests kill
it, and on few cores it starves itself.
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
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from toolgate_backend import launch
from toolgate_proxy.processes import free_port

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / ".cache" / "contenders"
"""Their logs."""
MASTER_KEY = os.environ.get("TOOLGATE_MASTER_KEY", "sk-bench")
MARKER = "TOOLGATE_BENCH_RUN"
"""Set in the environment of all we start, so that no descendant outlives its contender unseen."""

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


def command(contender: str, model: Path, port: int, max_model_len: int) -> list[str]:
    if contender == "toolgate":
        make = ("make", "-C", str(ROOT), "--no-print-directory")
        return [*make, "serve", f"MODEL={model}", f"PORT={port}"]
    return [
        *(sys.executable, "-m", "toolgate_backend.vllm_cli", "serve", str(model)),
        *("--host", "127.0.0.1", "--port", str(port), "--served-model-name", model.name),
        *launch.cpu_flags(["--max-model-len", str(max_model_len)]),
        *FLAGS[contender],
    ]


def environment(contender: str, run: str) -> dict[str, str]:
    env = {
        **os.environ,
        MARKER: run,
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
    return env


def members(run: str) -> list[int]:
    """Every process whose environment carries the run's marker."""
    wanted = f"{MARKER}={run}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and wanted in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue  # gone meanwhile, or another user's
    return found


def stop(process: subprocess.Popen[bytes], run: str) -> None:
    """Ask the process group to end, then end whatever is left of the run."""
    for sign, patience in ((signal.SIGTERM, 30), (signal.SIGKILL, 10)):
        if sign == signal.SIGTERM and process.poll() is None:
            os.killpg(process.pid, sign)
        else:
            for pid in members(run):
                try:
                    os.kill(pid, sign)
                except ProcessLookupError:
                    continue
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            process.poll()
            if not members(run):
                return
            time.sleep(0.2)
    print(f"still running after SIGKILL: {members(run)}", file=sys.stderr)


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
) -> Iterator[Server]:
    """The contender, ready, its log in `OUT` under `label`; ended after. `patience` in seconds.

    Raises NotStarted with the end of the log.
    """
    OUT.mkdir(parents=True, exist_ok=True)
    port, run = free_port(), uuid.uuid4().hex
    log = OUT / f"{label or contender}-{model.name}.server.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            ["nice", "-n", str(nice), *command(contender, model, port, max_model_len)],
            cwd=ROOT,
            env=environment(contender, run),
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
        yield server
    finally:
        stop(process, run)
