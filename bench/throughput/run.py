"""Tokens per second under enforcement, compared with vLLM and LiteLLM.

    python -m bench throughput MODEL_DIR [--rounds N] [--tokens N] [--drafts]
    python -m bench throughput MODEL_DIR --constant-load [--rounds N] [--streams 16 64 256]
        [--seconds 6] [vLLM options, such as --load-format dummy --gpu-memory-utilization 0.25]

Without `--constant-load`, batches of streams start together, direct and through gateways
(batches.py). With it, streams run without a pause, and what arrives in a window is measured, as
well as engine steps and the time between tokens (constant_load.py). That is for GPUs, and it also
runs with vLLM's CPU build. All servers run at the same time, with the same model, and are measured
in turn. Prints Markdown.
"""

import argparse
import asyncio
from pathlib import Path

from bench.support.contenders import exit_on_sigterm
from bench.throughput import batches, constant_load


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    group = parser.add_argument_group("batches")
    group.add_argument("--batches", type=int, nargs="+", default=batches.BATCHES)
    group.add_argument("--tools", type=int, nargs="+", default=batches.TOOLS)
    group.add_argument("--tokens", type=int, default=64, help="maximum tokens of a response")
    group.add_argument("--drafts", action="store_true", help="measure speculative decoding")
    group = parser.add_argument_group("constant load")
    group.add_argument("--constant-load", action="store_true")
    group.add_argument("--streams", type=int, nargs="+", default=(16, 64, 256))
    group.add_argument("--seconds", type=float, default=6, help="length of the window")
    group.add_argument("--free-tokens", type=int, default=144, help="tokens of a free response")
    group.add_argument("--gateway", action="store_true", help="also through Toolgate's gateway")
    group.add_argument("--clients", type=int, default=8, help="number of client processes")
    group.add_argument("--out", type=Path, help="file for a JSON line of each measurement")
    options, flags = parser.parse_known_args()
    exit_on_sigterm()
    if options.constant_load:
        return constant_load.run(options, flags)
    if flags:
        parser.error(f"unrecognized arguments: {' '.join(flags)}")
    asyncio.run(batches.run(options))
    return 0
