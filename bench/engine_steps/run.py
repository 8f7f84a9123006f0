"""Processor time that enforcement adds to a step of vLLM's engine, on a simulated accelerator.

    python -m bench engine-steps MODEL_DIR [--streams 16 64 256] [--json FILE]

vLLM's own engine loop, asynchronous scheduler, structured-output manager, prefix cache and
persistent batch run in one process. Instead of a model, an executor writes prepared calls of 8 BFCL
tools, and keeps the time line of an accelerator. All kinds get the same responses in the same
order:

- free: no constraint
- strict: vLLM's strict tools (the structural tag of its hermes parser, with xgrammar)
- structured_output, logits_processor: Toolgate's adapters

Texts are natural (words in strings), random (tokens that the masks of Toolgate and strict allow, as
random weights write them) or reference (those of BFCL's reference calls, of 32 tools). The others
are natural, and all strings of the tools have a constraint: a pattern, a format, a length, or mixed
ones, as frequent as in the real tools of the data set. No engine has seen the texts before. Each
token is looked up in the mask that was computed for it.

Counted is the processor time of the engine's main thread beyond that of free, per sequence and
step: that of the scheduler's `schedule`, `get_grammar_bitmask` and `update_from_output`, and that
of the worker, which runs in the same thread. There, vLLM's V2 model runner stages, copies and
applies bitmasks, or calls the logits processor, which receives new requests and the last tokens,
computes masks, copies and applies their rows. Not counted are the
kernels themselves, the creation of requests, and everything else in the worker. *copied* are the
bytes that the worker copies to the GPU for this, and *tokens* what a sequence gets in a step, which
is more than one with --drafts.

The columns of sections contain the time of free. *beyond free* is the mean over steps. *median
step* is that of the best round, which leaves out the steps in which calls begin and end, and most
of what else the machine does. *cold* are the first steps of a kind in a process. *all threads*
contains the simulation's own time as well, as far as it differs from that of free. *step* is wall
time. With --forward, --sample and --prep, it is bound by the accelerator or by the host.

The kinds take turns in each round. Each number of streams has a process of its own. On a busy
machine, only the ratios of one run count. With --profile, a further block of one kind is profiled,
and its functions are printed to the standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import get_args

from tests.support import markdown

from .blocks import SECTIONS, TEXTS, Block, Kind, Measured, Options, Session, Text
from .clocks import StepWork
from .process import in_new_process, measure, write

STREAMS = (16, 64, 256)
ENVIRONMENT = {
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_PLUGINS": "",
    "HF_HUB_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
}
HEAD = (
    *("vLLM", "streams", "text", "kind", *SECTIONS),
    *("beyond free", "÷ strict", "median step", "÷ strict", "cold", "÷ strict"),
    *("all threads", "÷ strict", "copied, bytes", "tokens", "step, ms", "÷ free"),
)


def sessions(options: Options, texts: Sequence[Text], streams: Sequence[int]) -> Iterator[Session]:
    for text in texts:
        count = max(map(options.responses, streams))
        responses = in_new_process(write, options.model, text, count)
        for each in streams:
            yield in_new_process(measure, options, text, each, responses)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench engine-steps",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", help="directory of a model with the vocabulary")
    parser.add_argument("--streams", type=int, nargs="+", default=STREAMS)
    parser.add_argument("--rounds", type=int, default=3, help="after a cold one")
    parser.add_argument("--steps", type=int, default=150, help="of a kind in a round")
    parser.add_argument("--kinds", nargs="+", choices=get_args(Kind), default=get_args(Kind))
    parser.add_argument("--text", nargs="+", choices=TEXTS, default=("natural", "random"))
    parser.add_argument("--threads", action="store_true", help="vLLM's input and output threads")
    parser.add_argument(
        "--drafts", type=int, default=0, help="of forced text; without logits_processor"
    )
    parser.add_argument("--displace", type=float, default=0, help="MB of caches, in each step")
    parser.add_argument("--forward", type=float, default=0, help="ms of the accelerator")
    parser.add_argument("--sample", type=float, default=0, help="ms of the accelerator")
    parser.add_argument("--prep", type=float, default=0, help="ms of the host before each forward")
    parser.add_argument(
        "--profile", choices=get_args(Kind), help="print this kind's functions, by their own time"
    )
    parser.add_argument("--json", type=Path, help="file to write a list of objects to")
    options = parser.parse_args()
    os.environ.update(
        {name: value for name, value in ENVIRONMENT.items() if name not in os.environ}
    )
    without = ("free", "logits_processor") if options.drafts else ("free",)
    wanted = Options(
        model=options.model,
        kinds=("free", *(kind for kind in options.kinds if kind not in without)),
        rounds=options.rounds,
        steps=options.steps,
        work=StepWork(
            forward=options.forward / 1e3,
            sample=options.sample / 1e3,
            prepare=options.prep / 1e3,
            displaced_bytes=int(options.displace * 2**20),
        ),
        threads=options.threads,
        drafts=options.drafts,
        profiled=options.profile,
    )
    found: list[Row] = []
    print(markdown.head(HEAD), flush=True)
    for session in sessions(wanted, options.text, options.streams):
        found += rows(session)
        print(lines(rows(session)), flush=True)
        if session.profile:
            print(session.profile, file=sys.stderr)
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(row) for row in found], indent=2) + "\n")
    return 0


@dataclass(frozen=True)
class Row:
    """One kind in one session. What is named `us` is processor time in µs per sequence and step
    beyond that of free, in the engine's main thread if nothing else is said. Ratios to strict are
    None without strict, and for free."""

    vllm: str
    """Its version."""
    kind: Kind
    streams: int
    text: Text
    us: float
    """Median of the rounds of the mean of the steps."""
    strict_ratio: float | None
    us_median: float
    """Of the median step of the best round, which leaves out most of what else the machine does."""
    median_strict_ratio: float | None
    us_cold: float
    """Of the steps from the kind's first request in the process on."""
    cold_strict_ratio: float | None
    us_process: float
    """Of all threads of the process."""
    process_strict_ratio: float | None
    copied: float
    """Bytes that the worker copies to the GPU, per sequence and step."""
    sections: dict[str, float]
    """µs per sequence and step in each section, those of free included."""
    tokens: float
    """Mean per step and sequence."""
    step_ms: float
    """Wall time of the median step."""
    step_ratio: float
    """To free."""
    checked: int
    """Tokens of the session that were looked up in a mask."""


def rows(session: Session) -> list[Row]:
    free, strict = session.kinds["free"], session.kinds.get("strict")

    def row(name: Kind, kind: Measured) -> Row:
        def ratio(added: Callable[[Measured, Measured], float]) -> float | None:
            if strict is None or name == "free":
                return None
            return added(kind, free) / added(strict, free)

        return Row(
            vllm=session.vllm,
            kind=name,
            streams=session.streams,
            text=session.text,
            us=_mean(kind, free),
            strict_ratio=ratio(_mean),
            us_median=_median_step(kind, free),
            median_strict_ratio=ratio(_median_step),
            us_cold=_cold(kind, free),
            cold_strict_ratio=ratio(_cold),
            us_process=_process(kind, free),
            process_strict_ratio=ratio(_process),
            copied=kind.copied,
            sections={each: _median(kind, _section(each)) for each in SECTIONS},
            tokens=_median(kind, lambda block: block.tokens / block.sequences),
            step_ms=_median(kind, _step_ms),
            step_ratio=_median(kind, _step_ms) / _median(free, _step_ms),
            checked=session.checked,
        )

    return [row(name, kind) for name, kind in session.kinds.items()]


def lines(found: Sequence[Row]) -> str:
    """Further lines of the table."""
    return "\n".join(markdown.row(_cells(each)) for each in found)


def _cells(row: Row) -> list[str]:
    return [
        *(row.vllm, str(row.streams), row.text, row.kind),
        *(f"{row.sections[section]:.1f}" for section in SECTIONS),
        *(f"{row.us:.1f}", _ratio(row.strict_ratio)),
        *(f"{row.us_median:.1f}", _ratio(row.median_strict_ratio)),
        *(f"{row.us_cold:.1f}", _ratio(row.cold_strict_ratio)),
        *(f"{row.us_process:.1f}", _ratio(row.process_strict_ratio), f"{row.copied:,.0f}"),
        f"{row.tokens:.2f}",
        *(f"{row.step_ms:.2f}", f"{row.step_ratio:.2f}"),
    ]


def _ratio(value: float | None) -> str:
    return "" if value is None else f"**{value:.2f}**"


def _median(kind: Measured, value: Callable[[Block], float]) -> float:
    return statistics.median(map(value, kind.warm))


def _added(kind: Measured, free: Measured, value: Callable[[Block], float]) -> float:
    """Median of the differences in each round."""
    pairs = zip(kind.warm, free.warm, strict=True)
    return statistics.median(value(block) - value(base) for block, base in pairs)


def _mean(kind: Measured, free: Measured) -> float:
    return _added(kind, free, lambda block: block.mean)


def _median_step(kind: Measured, free: Measured) -> float:
    return min(block.median for block in kind.warm) - min(block.median for block in free.warm)


def _process(kind: Measured, free: Measured) -> float:
    return _added(kind, free, lambda block: block.process)


def _cold(kind: Measured, free: Measured) -> float:
    return kind.cold.mean - free.cold.mean


def _section(name: str) -> Callable[[Block], float]:
    return lambda block: block.by_section[name]


def _step_ms(block: Block) -> float:
    return block.step_ms
