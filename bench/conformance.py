"""Start a contender, run the black-box evaluation against it, stop it again.

    python bench/conformance.py --contender vllm --model MODEL_DIR --bias none --bias closers
    python bench/conformance.py --report

One start serves every bias. Results go to `.cache/conformance/`, as
`<contender>-<model>-<bias>.{json,txt}`; the evaluation is `eval/gateway_eval.py` of
`$TOOLGATE_SHARED`.
"""

import argparse
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
from typing import Any

from conformance_report import report
from toolgate_proxy.processes import free_port

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("TOOLGATE_SHARED", ROOT.parent / "shared"))
OUT = ROOT / ".cache" / "conformance"
BIASES = ("none", "closers", "hostile")
MASTER_KEY = os.environ.get("TOOLGATE_MASTER_KEY", "sk-conformance")
MARKER = "TOOLGATE_CONFORMANCE_RUN"
"""Set in the environment of all we start, so that no descendant outlives its contender unseen."""

VLLM = [
    "--enable-auto-tool-choice",
    *("--tool-call-parser", "hermes"),
    *("--reasoning-parser", "qwen3"),
    "--enforce-eager",
    *("--dtype", "float32"),
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
    length = str(max_model_len)
    return [
        *(sys.executable, "-m", "toolgate_backend.vllm_cli", "serve", str(model)),
        *("--host", "127.0.0.1", "--port", str(port), "--served-model-name", model.name),
        # A seeded request that is prefilled in parts kills vLLM on CPU ("CPU Generator does not use
        # offset"), and a batch that holds any one prompt still splits the last of several.
        *("--max-model-len", length, "--max-num-batched-tokens", length),
        "--no-enable-chunked-prefill",
        *FLAGS[contender],
    ]


def environment(contender: str, run: str) -> dict[str, str]:
    env = {
        **os.environ,
        MARKER: run,
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
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
def running(contender: str, model: Path, options: argparse.Namespace) -> Iterator[Server]:
    port, run = free_port(), uuid.uuid4().hex
    log = OUT / f"{contender}-{model.name}.server.log"
    with log.open("wb") as sink:
        process = subprocess.Popen(
            [
                "nice",
                "-n",
                str(options.nice),
                *command(contender, model, port, options.max_model_len),
            ],
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
        wait_ready(server, contender, log, options.ready_timeout)
        print(
            f"{contender} on {model.name}: ready in {time.monotonic() - started:.0f} s", flush=True
        )
        yield server
    finally:
        stop(process, run)


def evaluate(server: Server, contender: str, bias: str, options: argparse.Namespace) -> bool:
    """One evaluation, its result file marked with how it went; whether the contender lived."""
    label = f"{contender}-{options.model.name}-{bias}"
    result, text = OUT / f"{label}.json", OUT / f"{label}.txt"
    result.unlink(missing_ok=True)
    started = time.monotonic()
    with text.open("w") as sink:
        code = subprocess.run(
            [
                *(sys.executable, str(SHARED / "eval" / "gateway_eval.py")),
                *("--base-url", server.url + "/v1", "--api-key", server.key),
                *("--model", server.model_name(), "--tokenizer", str(options.tokenizer)),
                *(
                    "--bias",
                    bias,
                    "--cases",
                    str(options.cases),
                    "--ctx",
                    str(options.max_model_len),
                ),
                *("--concurrency", str(options.concurrency), "--label", label),
                *("--out", str(result)),
            ],
            stdout=sink,
            stderr=subprocess.STDOUT,
        ).returncode
    lived = server.alive()
    data: dict[str, Any] = json.loads(result.read_text()) if result.exists() else {}
    data["run"] = {
        "contender": contender,
        "model": options.model.name,
        "bias": bias,
        "wall_seconds": round(time.monotonic() - started, 1),
        "exit_code": code,
        "died": not lived,
    }
    result.write_text(json.dumps(data, indent=1))
    print(f"{label}: {data['run']['wall_seconds']:.0f} s, exit {code}", end="", flush=True)
    print("" if lived else "; THE CONTENDER DIED", flush=True)
    return lived


def run_all(options: argparse.Namespace) -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    failed = False
    for contender in options.contender:
        left = list(options.bias or BIASES)
        while left:  # a contender that died is started again for the biases still to run
            try:
                with running(contender, options.model, options) as server:
                    while left and evaluate(server, contender, left.pop(0), options):
                        pass
            except NotStarted as error:
                print(error, file=sys.stderr)
                failed = True
                break
    return 1 if failed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--contender", action="append", choices=CONTENDERS)
    parser.add_argument("--model", type=Path, help="model directory")
    parser.add_argument(
        "--tokenizer", type=Path, help="where the bias finds its ids; default MODEL"
    )
    parser.add_argument("--bias", action="append", choices=BIASES, help="default: all three")
    parser.add_argument("--cases", type=int, default=384)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--max-model-len", type=int, default=4096)
    parser.add_argument("--ready-timeout", type=float, default=300)
    parser.add_argument("--nice", type=int, default=0, help="niceness of the contender")
    parser.add_argument("--report", action="store_true", help="only print the table of all results")
    options = parser.parse_args()
    if options.report:
        return report(OUT)
    if not options.contender or not options.model:
        parser.error("--contender and --model are needed (or --report)")
    options.model = options.model.resolve()
    options.tokenizer = (options.tokenizer or options.model).resolve()
    # A terminated bench must still stop what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    return run_all(options)


if __name__ == "__main__":
    sys.exit(main())
