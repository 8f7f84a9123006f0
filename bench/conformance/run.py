"""Black-box evaluation of the chat endpoint of Toolgate and vLLM.

    python -m bench conformance --contender vllm --model MODEL_DIR --bias none --bias closers
    python -m bench conformance --report

Runs `eval/gateway_eval.py` of `$TOOLGATE_SHARED` against each contender. A contender is started
once for all biases. Results are written to
`.cache/conformance/<contender>-<model>-<bias>.{json,txt}`.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from bench.conformance.report import report
from bench.support.contenders import CONTENDERS, NotStarted, Server, exit_on_sigterm, running
from bench.support.data import ROOT, SHARED

OUT = ROOT / ".cache" / "conformance"
BIASES = ("none", "closers", "hostile")


def evaluate(server: Server, contender: str, bias: str, options: argparse.Namespace) -> bool:
    """Run one evaluation and write its result file. Returns whether the contender still runs."""
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
    alive = server.alive()
    data: dict[str, Any] = json.loads(result.read_text()) if result.exists() else {}
    data["run"] = {
        "contender": contender,
        "model": options.model.name,
        "bias": bias,
        "wall_seconds": round(time.monotonic() - started, 1),
        "exit_code": code,
        "died": not alive,
    }
    result.write_text(json.dumps(data, indent=1))
    print(f"{label}: {data['run']['wall_seconds']:.0f} s, exit {code}", end="", flush=True)
    print("" if alive else "; THE CONTENDER DIED", flush=True)
    return alive


def run_all(options: argparse.Namespace) -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    failed = False
    for contender in options.contender:
        biases = list(options.bias or BIASES)
        while biases:  # after a crash, the contender is started again for the remaining biases
            try:
                with running(
                    contender,
                    options.model,
                    options.max_model_len,
                    options.ready_timeout,
                    options.nice,
                ) as server:
                    while biases and evaluate(server, contender, biases.pop(0), options):
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
    parser.add_argument("--tokenizer", type=Path, help="tokenizer of the bias; default: MODEL")
    parser.add_argument("--bias", action="append", choices=BIASES, help="default: all three")
    parser.add_argument("--cases", type=int, default=384)
    parser.add_argument("--concurrency", type=int, default=16)
    parser.add_argument("--max-model-len", type=int, default=4096)
    parser.add_argument("--ready-timeout", type=float, default=300)
    parser.add_argument("--nice", type=int, default=0, help="niceness of the contender's process")
    parser.add_argument(
        "--report", action="store_true", help="only print the table of earlier results"
    )
    options = parser.parse_args()
    if options.report:
        return report(OUT)
    if not options.contender or not options.model:
        parser.error("--contender and --model are required, except with --report")
    options.model = options.model.resolve()
    options.tokenizer = (options.tokenizer or options.model).resolve()
    exit_on_sigterm()
    return run_all(options)
