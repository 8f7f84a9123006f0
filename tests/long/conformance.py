"""Black-box evaluation of the chat endpoint of Toolgate and vLLM.

    python -m tests.long conformance --contender vllm --model MODEL_DIR --bias none --bias closers
    python -m tests.long conformance --family glm45 --family llama31 --adapter structured_output
    python -m tests.long conformance --report

Runs `eval/gateway_eval.py` of `$TOOLGATE_SHARED` against each contender. A contender is started
once for all biases. With `--family`, the contender is Toolgate with a random model in the form of
that family, once with each adapter. Results are written to
`.cache/conformance/<contender>-<model>-[<adapter>-]<bias>.{json,txt}`.
"""

import json
import subprocess
import sys
import time
from argparse import Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.models import ROOT, tiny_family
from tests.support import commands
from tests.support.markdown import table
from tests.support.servers.contenders import (
    CONTENDERS,
    NotStarted,
    Server,
    exit_on_sigterm,
    running,
)
from tests.support.shared_data import SHARED
from toolgate_core.dialects import mark_texts
from toolgate_core.dialects.registry import DIALECTS

OUT = ROOT / ".cache" / "conformance"
ADAPTERS = ("logits_processor", "structured_output")
COLUMNS = (
    *("contender", "model", "adapter", "bias", "requests", "errors", "choices", "ok", "truncated"),
    *("bad", "complete calls", "schema-valid", "forced calls right", "violations"),
    *("T=0 pairs equal/different", "grid s"),
)
BIASES = ("none", "closers", "hostile")


@dataclass(frozen=True)
class Run:
    """One contender with one model."""

    contender: str
    model: Path
    tokenizer: Path
    adapter: str | None = None
    marks: Path | None = None
    """File with the marks of the model's family. None: those of Qwen3."""

    @property
    def label(self) -> str:
        parts = (self.contender, self.model.name, self.adapter)
        return "-".join(part for part in parts if part)


def evaluate(server: Server, run: Run, bias: str, options: Namespace) -> bool:
    """Run one evaluation and write its result file. Returns whether the contender still runs."""
    label = f"{run.label}-{bias}"
    result, text = OUT / f"{label}.json", OUT / f"{label}.txt"
    result.unlink(missing_ok=True)
    started = time.monotonic()
    with text.open("w") as sink:
        code = subprocess.run(
            [
                *(sys.executable, str(SHARED / "eval" / "gateway_eval.py")),
                *("--base-url", server.url + "/v1", "--api-key", server.key),
                *("--model", server.model_name(), "--tokenizer", str(run.tokenizer)),
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
                *(("--marks", str(run.marks)) if run.marks else ()),
            ],
            stdout=sink,
            stderr=subprocess.STDOUT,
        ).returncode
    alive = server.alive()
    data: dict[str, Any] = json.loads(result.read_text()) if result.exists() else {}
    data["run"] = {
        "contender": run.contender,
        "model": run.model.name,
        "adapter": run.adapter,
        "bias": bias,
        "wall_seconds": round(time.monotonic() - started, 1),
        "exit_code": code,
        "died": not alive,
    }
    result.write_text(json.dumps(data, indent=1))
    print(f"{label}: {data['run']['wall_seconds']:.0f} s, exit {code}", end="", flush=True)
    print("" if alive else "; THE CONTENDER DIED", flush=True)
    return alive


def run_all(runs: list[Run], options: Namespace) -> int:
    OUT.mkdir(parents=True, exist_ok=True)
    failed = False
    for run in runs:
        biases = list(options.bias or BIASES)
        while biases:  # after a crash, the contender is started again for the remaining biases
            try:
                with running(
                    run.contender,
                    run.model,
                    options.max_model_len,
                    options.ready_timeout,
                    options.nice,
                    run.label,
                    env={"TOOLGATE_ADAPTER": run.adapter} if run.adapter else {},
                ) as server:
                    while biases and evaluate(server, run, biases.pop(0), options):
                        pass
            except NotStarted as error:
                print(error, file=sys.stderr)
                failed = True
                break
    return 1 if failed else 0


def family_runs(family: str, adapters: list[str]) -> list[Run]:
    """Toolgate with a random model of a family, with each adapter."""
    dialect, model = DIALECTS[family], ROOT / ".cache" / "models" / f"tiny-{family}"
    tiny_family.build(model, dialect)
    OUT.mkdir(parents=True, exist_ok=True)
    marks = OUT / f"{family}.marks"
    marks.write_text(json.dumps(mark_texts.evaluation_marks(dialect)))
    return [Run("toolgate", model, model, adapter, marks) for adapter in adapters]


def report(directory: Path) -> int:
    """Print the table of all results in `directory`."""
    results = [json.loads(path.read_text()) for path in directory.glob("*.json")]
    print(table(COLUMNS, map(_row, sorted(results, key=_order))))
    return 0


def _order(data: dict[str, Any]) -> tuple[str, str, int, str]:
    run = data["run"]
    return run["model"], run.get("adapter") or "", BIASES.index(run["bias"]), run["contender"]


def _row(data: dict[str, Any]) -> list[str]:
    run = data["run"]
    head = [f"{run['contender']}{' (died)' if run['died'] else ''}", run["model"]]
    head += [run.get("adapter") or "", run["bias"]]
    if "total" not in data:
        return [*head, f"no result, exit {run['exit_code']}", *[""] * (len(COLUMNS) - 5)]
    total, pairs = data["total"], data["pairs"]
    forced = [data["cells"][f"C/{choice}"] for choice in ("required", "named")]
    others = [f", {n} {kind}" for kind, n in pairs.items() if kind not in ("equal", "different")]
    return [
        *head,
        str(total["req"]),
        ", ".join(f"{count} {kind}" for kind, count in total["err"].items()) or "0",
        *(str(total[name]) for name in ("choices", "ok", "trunc", "bad", "complete")),
        f"{100 * total['calls_valid'] / total['complete']:.1f} %" if total["complete"] else "-",
        f"{sum(c['ok'] for c in forced)}/{sum(c['choices'] for c in forced)}",
        str(sum(v["count"] for v in data["violations"].values())),
        f"{pairs.get('equal', 0)}/{pairs.get('different', 0)}" + "".join(others),
        f"{data['grid_seconds']:.0f}",
    ]


def main() -> int:
    parser = commands.parser_of(__doc__)
    parser.add_argument("--contender", action="append", choices=CONTENDERS)
    parser.add_argument("--model", type=Path, help="model directory")
    families = [name for name, each in DIALECTS.items() if each.calls]
    parser.add_argument("--family", action="append", choices=families, metavar="NAME")
    parser.add_argument("--adapter", action="append", choices=ADAPTERS, help="default: both")
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
    runs: list[Run] = []
    if options.contender and options.model:
        model = options.model.resolve()
        tokenizer = (options.tokenizer or model).resolve()
        runs += [Run(contender, model, tokenizer) for contender in options.contender]
    for family in options.family or ():
        runs += family_runs(family, options.adapter or [*ADAPTERS])
    if not runs:
        parser.error("--contender with --model, or --family, is required, except with --report")
    exit_on_sigterm()
    return run_all(runs, options)
