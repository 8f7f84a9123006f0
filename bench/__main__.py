"""Entry point of the benchmarks.

python -m bench --list
python -m bench NAME [options]
python -m bench NAME --help
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

BENCHMARKS = {
    "throughput": "throughput.run",
    "growth": "growth.run",
    "memory": "growth.memory",
    "gateway-overhead": "gateway_overhead.run",
    "engine-steps": "engine_steps.run",
    "gpu-engine": "gpu_engine.run",
    "gpu-throughput": "throughput.gpu",
    "grammars": "micro.grammars",
    "drafts": "micro.drafts",
    "interference": "scenarios.interference",
    "affinity": "scenarios.affinity",
    "conformance": "conformance.run",
    "responses-conformance": "api_conformance.responses",
    "messages-conformance": "api_conformance.messages",
    "exactness": "exactness.run",
    "scoreboard": "scoreboard.run",
    "dialects-verify": "dialects_verify.run",
    "fuzz": "fuzz.run",
    "chaos": "chaos.run",
    "soak": "chaos.soak",
    "rolling": "chaos.rolling",
    "fleet": "fleet.run",
    "scheduler": "scheduler.run",
    "walks": "walks.run",
    "hostile-calls": "hostile_calls.run",
}
"""Module of each benchmark. Its `main()` parses the options and returns the exit status."""


def description(module: str) -> str:
    """First line of the module's docstring. Nothing is imported: some imports take seconds."""
    source = Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py").read_text()
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def listing() -> str:
    width = max(map(len, BENCHMARKS))
    return "\n".join(f"{name:{width}}  {description(BENCHMARKS[name])}" for name in BENCHMARKS)


def main(arguments: Sequence[str]) -> int:
    name = arguments[0] if arguments else "--list"
    if name in ("--list", "--help", "-h"):
        print("usage: python -m bench NAME [options]\n")
        print(listing())
        return 0
    if name not in BENCHMARKS:
        print(f"Unknown benchmark {name!r}. Choose one of:\n\n{listing()}", file=sys.stderr)
        return 2
    sys.argv = [f"python -m bench {name}", *arguments[1:]]
    status: int | None = import_module(f"bench.{BENCHMARKS[name]}").main()
    return status or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
