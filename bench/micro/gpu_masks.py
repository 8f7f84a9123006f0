"""Time that masks add to an engine step on a GPU, with a simulated forward pass.

    python -m bench gpu-masks [--batches 64 256] [--forward-ms 10] [--fill-us 0] [--blocks 12]

Needs a GPU, torch and xgrammar, but not vLLM: on a machine without it, `PYTHONPATH=backend:core`.
The forward pass, here matrix products, runs on the main stream. The logits of the batch have
151,936 entries per row, float32. Rows are sparse (40 tokens allowed, as inside a call) or dense
(1 % forbidden, as in free text). `--fill-us` is the time to compute one row.

structured_output follows vLLM's runners (v1/worker/gpu/structured_outputs.py). During the forward
pass the bitmask's rows are written to pinned memory and copied on a second stream. The main stream
waits for the copy. Then one kernel applies the rows to the logits. logits_processor is Toolgate's
own application of masks (backend/toolgate_backend/adapters/device_masks.py), on the main stream.

Blocks of steps with and without masks alternate. Prints Markdown:

- µs that masks add to a step, by CUDA events: median, minimum and maximum of the differences of the
  medians of blocks, and the difference of the 99th percentiles of all steps
- time of the kernels, with the copies that logits_processor makes between them
- processor time of the masks, which the forward pass hides as long as it takes longer

The exit status is 2 if there is no GPU.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
import xgrammar

from toolgate_backend.adapters.apply_masks import make_applier
from toolgate_backend.tokens.masks import Row

VOCABULARY = 151_936
STEPS = 20
"""Steps per block."""
SIZE = 4096
"""Rows and columns of the multiplied matrices."""
ALLOWED, FORBIDDEN = 40, VOCABULARY // 100
"""Allowed tokens of a sparse row, and forbidden tokens of a dense row."""
VARIETY = 4
"""Number of bitmasks, used in turn."""

NEW_ROWS = 32
"""One of so many rows of the adapter logits_processor has never been on the GPU."""

Kind = Literal["sparse", "dense"]
Adapter = Literal["structured_output", "logits_processor"]
Bitmask = npt.NDArray[np.int32]
Blocks = list[list[float]]
"""µs of each step, by block."""


@dataclass
class Times:
    """Times in µs."""

    free: Blocks = field(default_factory=list)
    """Steps without masks."""
    masked: Blocks = field(default_factory=list)
    kernel: list[float] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, nargs="+", default=(64, 256))
    parser.add_argument("--forward-ms", type=float, default=10)
    parser.add_argument("--fill-us", type=float, default=0, help="time to compute one row")
    parser.add_argument(
        "--blocks",
        type=int,
        default=12,
        help=f"blocks of {STEPS} steps, with and without masks each",
    )
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("gpu_masks: no CUDA device found. Run it on a machine with a GPU.", file=sys.stderr)
        return 2
    forward, took = simulated_forward(options.forward_ms)
    print(
        f"{torch.cuda.get_device_name()}; torch {torch.__version__}; {VOCABULARY:,} entries; a "
        f"forward pass of {took:.1f} ms; {options.fill_us:g} µs to compute a row; "
        f"{options.blocks * STEPS} steps each.\n"
    )
    print("| adapter | batch | rows | step without, µs | added, median (blocks) ", end="")
    print("| added at p99 | kernels, µs | processor, µs p50 / p99 |\n" + "| --- " * 8 + "|")
    rng = np.random.default_rng(1)
    kinds: tuple[Kind, ...] = ("sparse", "dense")
    for batch in options.batches:
        for kind in kinds:
            bitmasks = [bitmask(kind, batch, rng) for _ in range(VARIETY)]
            for adapter, create in ADAPTERS.items():
                times = measure(forward, create(bitmasks, options.fill_us), options.blocks)
                print(f"| {adapter} | {batch} | {kind} | {' | '.join(cells(times))} |", flush=True)
    return 0


def bitmask(kind: Kind, batch: int, rng: np.random.Generator) -> Bitmask:
    """One row of words per sequence. A bit is set if its token is allowed."""
    rows = np.zeros((batch, VOCABULARY), dtype=bool)
    for row in rows:
        row[rng.choice(VOCABULARY, ALLOWED if kind == "sparse" else FORBIDDEN, replace=False)] = (
            True
        )
    allowed = rows if kind == "sparse" else ~rows
    return np.packbits(allowed, axis=1, bitorder="little").view(np.int32)


def simulated_forward(wanted_ms: float) -> tuple[Callable[[], None], float]:
    """Matrix products that take about `wanted_ms`, and the milliseconds that they take."""
    left, right, out = (
        torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(3)
    )

    def products(count: int) -> float:
        start, end = event(), event()
        start.record()
        for _ in range(count):
            torch.mm(left, right, out=out)
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end))

    products(200)  # raises the GPU clock
    count = max(1, round(wanted_ms / (products(200) / 200)))

    def forward() -> None:
        for _ in range(count):
            torch.mm(left, right, out=out)

    return forward, products(count)


class Masks:
    """The masks of a batch, applied to its logits at each step."""

    def __init__(self, bitmasks: Sequence[Bitmask], fill_us: float) -> None:
        self._bitmasks, self._fill_us = bitmasks, fill_us
        self._logits = torch.zeros((len(bitmasks[0]), VOCABULARY), device="cuda")
        torch.cuda.synchronize()

    def apply(self, step: int, kernels_begin: Any) -> None:
        """Called after the forward pass was launched. Returns when the kernels were launched."""
        raise NotImplementedError

    def _compute(self, step: int) -> Iterator[tuple[int, npt.NDArray[np.int32]]]:
        """The row of each sequence, after the time that it takes to compute one."""
        for index, row in enumerate(self._bitmasks[step % len(self._bitmasks)]):
            ready = time.perf_counter() + self._fill_us * 1e-6
            while time.perf_counter() < ready:
                pass
            yield index, row


class RunnerMasks(Masks):
    """vLLM's runner, which gets a bitmask from the adapter structured_output."""

    def __init__(self, bitmasks: Sequence[Bitmask], fill_us: float) -> None:
        super().__init__(bitmasks, fill_us)
        shape = bitmasks[0].shape
        self._staged = torch.empty(shape, dtype=torch.int32, pin_memory=True)
        self._rows = self._staged.numpy()
        self._device_rows = torch.empty(shape, dtype=torch.int32, device="cuda")
        self._copies = torch.cuda.Stream()

    def apply(self, step: int, kernels_begin: Any) -> None:
        for index, row in self._compute(step):
            self._rows[index] = row
        with torch.cuda.stream(self._copies):
            self._device_rows.copy_(self._staged, non_blocking=True)
        main = torch.cuda.current_stream()
        main.wait_stream(self._copies)
        kernels_begin.record()
        xgrammar.apply_token_bitmask_inplace(self._logits, self._device_rows)
        self._copies.wait_stream(main)


class ProcessorMasks(Masks):
    """The adapter logits_processor. Rows return, as those of a grammar do, except for one of every
    `NEW_ROWS`, which is new."""

    def __init__(self, bitmasks: Sequence[Bitmask], fill_us: float) -> None:
        super().__init__(bitmasks, fill_us)
        self._applier = make_applier(torch.device("cuda"), VOCABULARY, pin_memory=True)
        self._rows = [[Row(row.tobytes()) for row in bitmask] for bitmask in bitmasks]

    def apply(self, step: int, kernels_begin: Any) -> None:
        rows = [
            row if index % NEW_ROWS else Row(words.tobytes())
            for row, (index, words) in zip(
                self._rows[step % len(self._rows)], self._compute(step), strict=True
            )
        ]
        kernels_begin.record()
        self._applier.apply(self._logits, range(len(rows)), rows)


ADAPTERS: dict[Adapter, type[Masks]] = {
    "structured_output": RunnerMasks,
    "logits_processor": ProcessorMasks,
}


def measure(forward: Callable[[], None], masks: Masks, blocks: int) -> Times:
    times = Times()
    block(forward, masks, Times())  # compiles the kernel
    for number in range(blocks):
        for masked in (number % 2 == 0, number % 2 == 1):
            steps = block(forward, masks if masked else None, times)
            (times.masked if masked else times.free).append(steps)
    return times


def block(forward: Callable[[], None], masks: Masks | None, times: Times) -> list[float]:
    """µs of each step. A step ends before the next begins, because the next one needs its token."""
    steps = []
    for step in range(STEPS):
        start, kernel, end = event(), event(), event()
        start.record()
        forward()
        began = time.perf_counter()
        if masks is not None:
            masks.apply(step, kernel)
            times.processor.append((time.perf_counter() - began) * 1e6)
        end.record()
        end.synchronize()
        steps.append(1e3 * float(start.elapsed_time(end)))
        if masks is not None:
            times.kernel.append(1e3 * float(kernel.elapsed_time(end)))
    return steps


def event() -> Any:
    return torch.cuda.Event(enable_timing=True)


def cells(times: Times) -> list[str]:
    return [
        *added(times.free, times.masked),
        f"{statistics.median(times.kernel):.1f}",
        f"{statistics.median(times.processor):,.0f} / {p99(times.processor):,.0f}",
    ]


def added(free: Blocks, masked: Blocks, digits: int = 1) -> list[str]:
    """Cells: the step without masks, what masks add to it by the blocks, and at p99."""
    differences = [
        statistics.median(one) - statistics.median(other)
        for one, other in zip(masked, free, strict=True)
    ]
    median, least, most = statistics.median(differences), min(differences), max(differences)
    steps = list(chain(*free))
    return [
        f"{statistics.median(steps):,.0f}",
        f"**{median:.{digits}f}** ({least:.{digits}f}–{most:.{digits}f})",
        f"{p99(list(chain(*masked))) - p99(steps):.{digits}f}",
    ]


def p99(values: Sequence[float]) -> float:
    return sorted(values)[int(0.99 * (len(values) - 1))]


if __name__ == "__main__":
    sys.exit(main())
