"""How the cost of enforcement grows: with tools, streams, tokens of an answer, grammars.

    python -m bench.growth.run MODEL_DIR [MODEL_DIR …] [--only tools,streams,output,grammars]
        [--rounds N] [--plots DIR] > report.md

The first three on one backend of the first model, enforced beside free: the same request without
enforcement. Rounds are interleaved; a ratio is of two measurements next to each other, and what is
given is the median of those and its 95 % interval by bootstrap. The calls are of BFCL's smallest
tools with two strings (`$TOOLGATE_SHARED/data`), by random weights: strings run long. Grammars are
counted in a process of their own without an engine, for each model's vocabulary.

Prints Markdown, and writes `growth-*.svg` to the directory of the plots (docs/plots):

- tools: first token, with all grammars loaded, and ms a token, for 1 to 300 tools
- streams: tokens a second of 1 to 128 streams
- output: ms a token of one answer as it grows to 10,000 tokens, in slices
- grammars: memory and compile time for 1 to 10,000 grammars, all kept and within our limits
"""

import argparse
import asyncio
import json
import secrets
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import httpx

from bench.growth.grammars import COUNTS, grammars_part
from bench.growth.load import Batch, Load, Pair
from bench.support import plots
from bench.support.contenders import ROOT, leave_on_sigterm, running
from bench.support.ratios import ratio
from bench.support.tools import long_tool, small_tools
from toolgate_proxy.stack.processes import free_port

TOOLS = (1, 8, 30, 60, 150, 300)
BATCHES = {1: 2, 16: 1}
"""Streams at a time, and how often they are begun in a round."""
STREAMS = (1, 8, 32, 64, 128)
SET = 8
"""Tools of each request where it is not they that grow."""
TOKENS = 96
"""Of an answer where it is not that which grows."""
MARKS = (100, 1_000, 3_000, 10_000)
SLICE = 250
"""Tokens of an answer in one piece of its curve."""
CONTEXT = MARKS[-1] + 512
"""More than the tiny models were made for: their positions are only numbers."""
FLAGS = (
    *("--max-num-seqs", str(max(STREAMS)), "--max-model-len", str(CONTEXT)),
    *("--hf-overrides", json.dumps({"max_position_embeddings": CONTEXT})),
)
KEY = secrets.token_urlsafe(24)

Found = Mapping[int, Sequence[Pair]]
"""By what grows."""
Part = Callable[[Load, int, Path], Awaitable[str]]


async def tools_part(load: Load, rounds: int, folder: Path) -> str:
    tools = small_tools(max(TOOLS))
    candidates = {size: await load.backend.load(tools[:size]) for size in TOOLS}
    found: dict[int, dict[int, list[Pair]]] = {
        streams: {size: [] for size in TOOLS} for streams in BATCHES
    }
    for streams, by_size in found.items():
        for size in by_size:  # what is made once is made before the rounds
            await load.pair(candidates[size], streams, TOKENS, 0)
    for number in range(rounds):
        for streams, by_size in found.items():
            for size, pairs in by_size.items():
                for again in range(BATCHES[streams]):
                    pair = await load.pair(candidates[size], streams, TOKENS, number + again)
                    pairs.append(pair)
    for name, title, value in (
        ("first-token", "First token, by tools of a request", first_ms),
        ("tools", "Time a token, by tools of a request", token_ms),
    ):
        lines = {
            f"{kind}, {streams} at a time": line
            for streams, by_size in found.items()
            for kind, line in medians(by_size, value).items()
        }
        plots.lines(folder / f"growth-{name}.svg", title, "tools", "ms", lines)
    rows = [
        [streams, len(candidates[size]), *compared(pairs, first_ms), *compared(pairs, token_ms)]
        for streams, by_size in found.items()
        for size, pairs in by_size.items()
    ]
    head = ["streams", "tools", *columns("first token, ms"), *columns("ms a token")]
    return f"{table(head, rows)}\n\n{lengths(list(found.values()))}"


async def streams_part(load: Load, rounds: int, folder: Path) -> str:
    candidates = await load.backend.load(small_tools(SET))
    found: dict[int, list[Pair]] = {streams: [] for streams in STREAMS}
    for streams in STREAMS:
        await load.pair(candidates, streams, TOKENS, 0)
    for number in range(rounds):
        for streams, pairs in found.items():
            pairs.append(await load.pair(candidates, streams, TOKENS, number))
    path, lines = folder / "growth-streams.svg", medians(found, per_second)
    plots.lines(path, "Tokens a second, by streams", "streams", "tokens/s", lines)
    rows = [[streams, *compared(pairs, per_second, digits=0)] for streams, pairs in found.items()]
    head = ["streams", *columns("tokens/s")]
    return f"{table(head, rows)}\n\n{SET} tools. {lengths([found])}"


async def output_part(load: Load, rounds: int, folder: Path) -> str:
    """Long answers, whose beginnings are the shorter ones; rounds cost most here, so few."""
    candidates = await load.backend.load([long_tool()])
    await load.pair(candidates, 1, MARKS[1], 0)
    pairs = [
        await load.pair(candidates, 1, MARKS[-1], number) for number in range(max(1, rounds // 3))
    ]
    enforced = [pair.enforced.streams[0] for pair in pairs]
    free = [pair.free.streams[0] for pair in pairs]
    longest = min(stream.tokens for stream in [*enforced, *free])
    rows: list[list[object]] = []
    for start, mark in pairwise([1, *(mark for mark in MARKS if mark <= longest)]):
        size = min(SLICE, (mark - start) // 4)
        whole = [[stream.until(mark) / mark for stream in each] for each in (enforced, free)]
        parts = [
            [ms for stream in each for ms in stream.slices(start, mark, size)]
            for each in (enforced, free)
        ]
        cells = [*beside(whole[0], whole[1]), f"{start:,}–{mark:,}", *beside(parts[0], parts[1])]
        rows.append([f"{mark:,}", *cells])
    starts = range(1, longest - SLICE + 1, SLICE)
    lines = {
        kind: [
            (
                at + SLICE,
                statistics.median(ms for s in each for ms in s.slices(at, at + SLICE, SLICE)),
            )
            for at in starts
        ]
        for kind, each in (("enforced", enforced), ("free", free))
    }
    title = f"Time a token as an answer grows, each {SLICE} tokens"
    plots.lines(folder / "growth-output.svg", title, "tokens of the answer", "ms a token", lines)
    head = ["answer of", *columns("ms a token"), "its tokens", *columns("ms a token")]
    counted = f"Answers of each kind: {len(pairs)}; the shortest had {longest:,} tokens."
    return f"{table(head, rows)}\n\n{counted}"


def first_ms(batch: Batch) -> float:
    return batch.first_ms


def token_ms(batch: Batch) -> float:
    return batch.token_ms


def per_second(batch: Batch) -> float:
    return batch.tokens_per_second


def compared(
    pairs: Sequence[Pair], value: Callable[[Batch], float], digits: int = 2
) -> list[object]:
    enforced, free = [value(pair.enforced) for pair in pairs], [value(pair.free) for pair in pairs]
    return beside(enforced, free, digits)


def beside(enforced: Sequence[float], free: Sequence[float], digits: int = 2) -> list[object]:
    """The cells of `columns`."""
    cells = [f"{statistics.median(each):,.{digits}f}" for each in (enforced, free)]
    return [*cells, ratio(enforced, free)]


def columns(what: str) -> list[str]:
    return [f"{what}: enforced", "free", "enforced ÷ free"]


def medians(found: Found, value: Callable[[Batch], float]) -> dict[str, list[tuple[float, float]]]:
    """Lines for a plot."""
    return {
        "enforced": [
            (x, statistics.median(value(pair.enforced) for pair in pairs))
            for x, pairs in found.items()
        ],
        "free": [
            (x, statistics.median(value(pair.free) for pair in pairs)) for x, pairs in found.items()
        ],
    }


def lengths(found: Sequence[Found]) -> str:
    """A call may end before its time; what runs free does not."""
    tokens = [
        stream.tokens
        for by_size in found
        for pairs in by_size.values()
        for pair in pairs
        for stream in pair.enforced.streams
    ]
    return (
        f"Answers of {TOKENS} tokens; the enforced ones had {statistics.mean(tokens):.1f} on the "
        f"average, the shortest {min(tokens)}."
    )


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in lines)


SERVED: Mapping[str, Part] = {
    "tools": tools_part,
    "streams": streams_part,
    "output": output_part,
}
PARTS = (*SERVED, "grammars")


async def served(url: str, parts: Sequence[str], rounds: int, folder: Path) -> None:
    """The parts that need a backend."""
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(
        base_url=url, headers=headers, limits=limits, timeout=600, trust_env=False
    ) as http:
        load = Load(http)
        for name in parts:
            began = time.monotonic()
            text = await SERVED[name](load, rounds, folder)
            print(f"\n### {name}\n\n{text}", flush=True)
            print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--only", default=",".join(PARTS), help="parts, with commas between")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--counts", type=int, nargs="+", default=COUNTS, help="of grammars")
    parser.add_argument("--plots", type=Path, default=ROOT / "docs" / "plots")
    options = parser.parse_args()
    leave_on_sigterm()
    wanted = options.only.split(",")
    if unknown := set(wanted) - {*PARTS}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    models = [model.resolve() for model in options.models]
    if parts := [part for part in SERVED if part in wanted]:
        port = free_port()
        flags, env = (*FLAGS, "--backend-port", str(port)), {"TOOLGATE_BACKEND_KEY": KEY}
        with running("toolgate", models[0], flags=flags, env=env, label="growth"):
            url = f"http://127.0.0.1:{port}"
            asyncio.run(served(url, parts, options.rounds, options.plots))
    if "grammars" in wanted:
        began = time.monotonic()
        print(f"\n### grammars\n\n{grammars_part(models, options.counts, options.plots)}")
        print(f"grammars: {time.monotonic() - began:.0f} s", file=sys.stderr)


if __name__ == "__main__":
    main()
