"""The measurements of batches.py as tables of ratios."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.support.ratios import ratio
from bench.throughput.clients import Engine
from tests.support.markdown import table


@dataclass(frozen=True)
class Cell:
    batch: int
    tools: int


@dataclass(frozen=True)
class Measured:
    tokens_per_second: float
    first_ms: float
    """Median time to the first event."""
    tokens: float
    """Mean tokens of a response."""


Found = dict[tuple[str, Cell], list[Measured]]
"""One measurement per round, for each client name and cell."""

Value = Callable[[Measured], float]

Pairs = Mapping[str, tuple[str, str]]
"""The client's name and that of its base, by the head of the column."""

ADAPTERS: tuple[Engine, ...] = ("structured_output", "logits_processor")
DRAFTING: Engine = "structured_output, drafts"
BASES = {
    "the same server, free": "{} · direct, free",
    "vLLM, free": "vllm, free · direct",
    "vLLM, strict": "vllm, strict · direct",
}
DRAFT_RATIOS = {
    "vLLM strict, with ÷ without drafts": ("vllm, strict, drafts", "vllm, strict"),
    "Toolgate with drafts ÷ vLLM strict without": (DRAFTING, "vllm, strict"),
    "Toolgate ÷ vLLM strict, both with drafts": (DRAFTING, "vllm, strict, drafts"),
}
GATEWAY_BASES = {
    "`hosted_vllm/`, vLLM free": "vllm, free · hosted_vllm",
    "`hosted_vllm/`, vLLM strict": "vllm, strict · hosted_vllm",
}


def report(found: Found) -> str:
    cells = _cells(found)
    parts = ["Tokens/s, Toolgate ÷ vLLM, without a gateway:"]
    for engine in ADAPTERS:
        parts += ["", _table(_pairs("direct", (engine,), BASES), found, cells)]
    gateway_cells = [cell for cell in cells if (f"{ADAPTERS[0]} · toolgate", cell) in found]
    gateways = _pairs("toolgate", ADAPTERS, GATEWAY_BASES)
    parts += ["", "Tokens/s, Toolgate's gateway ÷ LiteLLM:", ""]
    parts.append(_table(gateways, found, gateway_cells))
    parts += ["", "Median time to the first event, Toolgate's gateway ÷ LiteLLM:", ""]
    parts.append(_table(gateways, found, gateway_cells, lambda each: each.first_ms))
    return "\n".join([*parts, *_medians(found, cells)])


def drafts_report(found: Found) -> str:
    """The report of measurements with speculative decoding."""
    cells = _cells(found)
    pairs = {
        head: (f"{engine} · direct", f"{base} · direct")
        for head, (engine, base) in DRAFT_RATIOS.items()
    }
    parts = ["Tokens/s, without a gateway:", "", _table(pairs, found, cells)]
    return "\n".join([*parts, *_medians(found, cells)])


def _cells(found: Found) -> list[Cell]:
    return list(dict.fromkeys(cell for _, cell in found))


def _pairs(route: str, engines: Sequence[Engine], bases: Mapping[str, str]) -> Pairs:
    return {
        f"{engine} ÷ {name}": (f"{engine} · {route}", base.format(engine))
        for engine in engines
        for name, base in bases.items()
    }


def _table(
    pairs: Pairs,
    found: Found,
    cells: Sequence[Cell],
    value: Value = lambda each: each.tokens_per_second,
) -> str:
    """A column of ratios for each pair of clients."""
    rows = [
        [
            *(cell.batch, cell.tools),
            *(
                ratio([value(a) for a in found[ours, cell]], [value(b) for b in found[base, cell]])
                for ours, base in pairs.values()
            ),
        ]
        for cell in cells
    ]
    return table(["batch", "tools", *pairs], rows)


def _medians(found: Found, cells: Sequence[Cell]) -> list[str]:
    clients = list(dict.fromkeys(client for client, _ in found))
    title = "Medians of tokens/s, time to the first event in ms, tokens per response:"
    head = ["client", *(f"{cell.batch} × {cell.tools}" for cell in cells)]
    rows = ([each, *(_median(found.get((each, cell), [])) for cell in cells)] for each in clients)
    return ["", title, "", table(head, rows)]


def _median(measured: Sequence[Measured]) -> str:
    if not measured:
        return ""
    values: tuple[Value, ...] = (
        lambda each: each.tokens_per_second,
        lambda each: each.first_ms,
        lambda each: each.tokens,
    )
    return ", ".join(f"{statistics.median(map(value, measured)):,.0f}" for value in values)
