"""The table and the JSON of `bench gpu-engine`."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bench.engine_steps.blocks import Block, Kind
from tests.support import markdown

from .engines import DEFAULT, BlockOfRequests

HEAD = (
    *("streams", "text", "engine", "kind", "tokens/s", "÷ free", "÷ default"),
    *("step, ms", "÷ free", "p99, ms", "steps per token"),
    *("µs beyond free", "÷ strict", "all threads", "cold", "rounds"),
)
Found = dict[BlockOfRequests, Block]
Cell = tuple[int, str, str, Kind]
"""Streams, text, engine and kind."""


@dataclass(frozen=True)
class _Kind:
    """Blocks of one cell, each with the one of free in the same engine and round."""

    streams: int
    pairs: Sequence[tuple[Block, Block]]
    cold: tuple[Block, Block] | None

    def median(self, value: Callable[[Block], float]) -> float:
        return statistics.median(value(block) for block, _ in self.pairs)

    def ratio(self, value: Callable[[Block], float]) -> float:
        return statistics.median(value(block) / value(free) for block, free in self.pairs)

    def added(self, value: Callable[[Block], float]) -> float:
        return statistics.median(value(block) - value(free) for block, free in self.pairs)


def record(block: BlockOfRequests, measured: Block) -> dict[str, Any]:
    """A JSON object."""
    return asdict(block) | asdict(measured) | {"mean_us": measured.mean}


def table(found: Found) -> str:
    rows, kinds = list[list[object]](), _kinds(found)
    for (streams, text, engine, kind), each in kinds.items():
        if not each.pairs:
            continue
        strict = kinds.get((streams, text, "structured_output", "strict"))
        default = kinds.get((streams, text, DEFAULT, "free"))
        rows.append([streams, text, engine, kind, *_cells(each, kind, strict, default)])
    return markdown.table(HEAD, rows)


def _kinds(found: Found) -> dict[Cell, _Kind]:
    warm: dict[Cell, list[tuple[Block, Block]]] = {}
    cold: dict[Cell, tuple[Block, Block]] = {}
    for block, measured in found.items():
        free = found.get(
            BlockOfRequests(block.engine, "free", block.streams, block.text, block.round)
        )
        if block.profiled or free is None:
            continue
        cell = block.streams, block.text, block.engine, block.kind
        warm.setdefault(cell, [])
        if block.round:
            warm[cell].append((measured, free))
        else:
            cold[cell] = measured, free
    return {cell: _Kind(cell[0], pairs, cold.get(cell)) for cell, pairs in warm.items()}


def _cells(each: _Kind, kind: Kind, strict: _Kind | None, default: _Kind | None) -> list[str]:
    is_free, rate = kind == "free", each.median(lambda block: block.tokens_per_second)
    usual = 0.0
    if default and default.pairs and default is not each:
        usual = default.median(lambda block: block.tokens_per_second)

    def beside_free(text: str) -> str:
        return "" if is_free else text

    added = each.added(lambda block: block.mean)
    base = strict.added(lambda block: block.mean) if strict and strict.pairs else 0.0
    cold = "" if each.cold is None else f"{each.cold[0].mean - each.cold[1].mean:.1f}"
    return [
        f"{rate:,.0f}",
        beside_free(f"**{each.ratio(lambda block: block.tokens_per_second):.2f}**"),
        f"**{rate / usual:.2f}**" if usual else "",
        f"{each.median(lambda block: block.step_ms):.2f}",
        beside_free(f"**{each.ratio(lambda block: block.step_ms):.2f}**"),
        f"{each.median(lambda block: block.step_p99_ms):.2f}",
        f"{each.streams / each.median(lambda block: block.tokens):.2f}",
        beside_free(f"{added:.1f}"),
        beside_free(f"{added / base:.2f}" if base > 0 else ""),
        beside_free(f"{each.added(lambda block: block.process):.1f}"),
        beside_free(cold),
        str(len(each.pairs)),
    ]
