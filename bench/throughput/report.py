"""What `throughput.py` found, as tables of ratios and as plots."""

import statistics
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from pathlib import Path

from bench.support.plots import bars
from bench.support.ratios import interval, ratio, ratios
from bench.throughput.clients import Engine


@dataclass(frozen=True)
class Cell:
    batch: int
    tools: int


@dataclass(frozen=True)
class Measured:
    tokens_per_second: float
    first_ms: float
    """Median of the times to the first event."""
    tokens: float
    """Of an answer, on average."""


Found = dict[tuple[str, Cell], list[Measured]]
"""By the lane's name: one measurement a round, in their order."""

Value = Callable[[Measured], float]

ADAPTERS: tuple[Engine, ...] = ("structured_output", "logits_processor")
DRAFTING: Engine = "structured_output, drafts"
BASES = {
    "the same server, free": "{} · direct, free",
    "vLLM, free": "vllm, free · direct",
    "vLLM, strict": "vllm, strict · direct",
    "vLLM, strict, drafts": "vllm, strict, drafts · direct",
}
BEHIND = {
    "`hosted_vllm/`, vLLM free": "vllm, free · hosted_vllm",
    "`hosted_vllm/`, vLLM strict": "vllm, strict · hosted_vllm",
}


def report(found: Found) -> str:
    cells = list(dict.fromkeys(cell for _, cell in found))
    lanes = {lane for lane, _ in found}
    ours = _engines(lanes)
    bases = {name: lane for name, lane in BASES.items() if lane.format(ours[0]) in lanes}
    parts = ["Tokens/s, ours ÷ theirs, asked directly:"]
    for engine in ours:
        parts += ["", *_table("direct", (engine,), bases, found, cells)]
    behind = [cell for cell in cells if (f"{ADAPTERS[0]} · toolgate", cell) in found]
    parts += [
        "",
        "Tokens/s, our gateway ÷ LiteLLM's:",
        "",
        *_table("toolgate", ADAPTERS, BEHIND, found, behind),
    ]
    parts += ["", "Median first event, our gateway ÷ LiteLLM's:", ""]
    parts += _table("toolgate", ADAPTERS, BEHIND, found, behind, lambda each: each.first_ms)
    parts += ["", "Medians of tokens/s, first event in ms, tokens of an answer:", ""]
    return "\n".join([*parts, *_medians(found, cells)])


def _engines(lanes: Set[str]) -> list[Engine]:
    """Ours that were measured."""
    return [each for each in (*ADAPTERS, DRAFTING) if f"{each} · direct" in lanes]


def _table(
    way: str,
    engines: Sequence[Engine],
    bases: dict[str, str],
    found: Found,
    cells: Sequence[Cell],
    value: Value = lambda each: each.tokens_per_second,
) -> list[str]:
    heads = [f"{engine} ÷ {base}" for engine in engines for base in bases]
    lines = ["| batch | tools | " + " | ".join(heads) + " |", "| --- " * (2 + len(heads)) + "|"]
    for cell in cells:
        row = [
            ratio(
                [value(each) for each in found[f"{engine} · {way}", cell]],
                [value(each) for each in found[base.format(engine), cell]],
            )
            for engine in engines
            for base in bases.values()
        ]
        lines.append(f"| {cell.batch} | {cell.tools} | " + " | ".join(row) + " |")
    return lines


def _medians(found: Found, cells: Sequence[Cell]) -> list[str]:
    lanes = list(dict.fromkeys(lane for lane, _ in found))
    head = [f"{cell.batch} × {cell.tools}" for cell in cells]
    lines = ["| lane | " + " | ".join(head) + " |", "| --- " * (1 + len(head)) + "|"]
    for lane in lanes:
        row = [_median(found.get((lane, cell), [])) for cell in cells]
        lines.append(f"| {lane} | " + " | ".join(row) + " |")
    return lines


def _median(measured: Sequence[Measured]) -> str:
    if not measured:
        return ""
    values: tuple[Value, ...] = (
        lambda each: each.tokens_per_second,
        lambda each: each.first_ms,
        lambda each: each.tokens,
    )
    return ", ".join(f"{statistics.median(map(value, measured)):,.0f}" for value in values)


def write_plots(found: Found, directory: Path, model: str) -> None:
    """Bars of ours ÷ vLLM's, free and strict, for every cell, with their intervals."""
    cells = list(dict.fromkeys(cell for _, cell in found))
    found_ratios = {
        f"{engine} ÷ {base}": [
            ratios(
                [each.tokens_per_second for each in found[f"{engine} · direct", cell]],
                [each.tokens_per_second for each in found[BASES[base], cell]],
            )
            for cell in cells
        ]
        for engine in _engines({lane for lane, _ in found})
        for base in ("vLLM, free", "vLLM, strict")
    }
    bars(
        directory / f"throughput-{model}.svg",
        f"Tokens/s, ours ÷ vLLM's, by streams × tools ({model})",
        "ratio",
        [f"{cell.batch} × {cell.tools}" for cell in cells],
        {name: [statistics.median(each) for each in some] for name, some in found_ratios.items()},
        {name: [interval(each) for each in some] for name, some in found_ratios.items()},
        line_at=1.0,
    )
