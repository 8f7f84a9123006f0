"""The results of conformance runs as one Markdown table."""

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

COLUMNS = (
    "contender",
    "model",
    "bias",
    "requests",
    "errors",
    "choices",
    "ok",
    "truncated",
    "bad",
    "complete calls",
    "schema-valid",
    "forced calls right",
    "violations",
    "T=0 pairs equal/different",
    "grid s",
)

SUMMED = {
    "requests": "req",
    "choices": "choices",
    "truncated": "trunc",
    "bad": "bad",
    "complete calls": "complete",
    "schema-valid": "calls_valid",
}
PAIRS = ("equal", "different")
FAMILY_COLUMNS = (
    *("family", "adapter", "biases", *SUMMED),
    *("violations", "T=0 pairs equal/different"),
)


def report_row(data: dict[str, Any]) -> list[str]:
    run = data["run"]
    contender = " ".join(each for each in (run["contender"], run.get("adapter")) if each)
    head = [f"{contender}{' (died)' if run['died'] else ''}", run["model"], run["bias"]]
    if "total" not in data:
        return [*head, f"no result, exit {run['exit_code']}", *[""] * (len(COLUMNS) - 4)]
    total, pairs = data["total"], data["pairs"]
    forced = [data["cells"][f"C/{choice}"] for choice in ("required", "named")]
    errors = ", ".join(f"{count} {kind}" for kind, count in total["err"].items()) or "0"
    valid = f"{100 * total['calls_valid'] / total['complete']:.1f} %" if total["complete"] else "-"
    other = {kind: count for kind, count in pairs.items() if kind not in ("equal", "different")}
    return [
        *head,
        str(total["req"]),
        errors,
        str(total["choices"]),
        str(total["ok"]),
        str(total["trunc"]),
        str(total["bad"]),
        str(total["complete"]),
        valid,
        f"{sum(c['ok'] for c in forced)}/{sum(c['choices'] for c in forced)}",
        str(sum(v["count"] for v in data["violations"].values())),
        f"{pairs.get('equal', 0)}/{pairs.get('different', 0)}"
        + "".join(f", {count} {kind}" for kind, count in other.items()),
        f"{data['grid_seconds']:.0f}",
    ]


def report(directory: Path) -> int:
    """Print the tables of all results in `directory`."""
    results = [json.loads(path.read_text()) for path in directory.glob("*.json")]
    results.sort(
        key=lambda data: (
            data["run"]["model"],
            data["run"].get("adapter") or "",
            ("none", "closers", "hostile").index(data["run"]["bias"]),
            ("vllm", "vllm-strict", "toolgate").index(data["run"]["contender"]),
        )
    )
    _print(COLUMNS, [report_row(data) for data in results if not data["run"].get("adapter")])
    families = [data for data in results if data["run"].get("adapter")]
    if families:
        print()
        _print(FAMILY_COLUMNS, family_rows(families))
    return 0


def family_rows(results: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """A row for each family and adapter, with the sums over the biases."""
    rows: list[list[str]] = []
    runs = groupby(results, key=lambda data: (data["run"]["model"], data["run"]["adapter"]))
    for (model, adapter), group in runs:
        found = [data for data in group if "total" in data]
        sums = [sum(data["total"][name] for data in found) for name in SUMMED.values()]
        violations = sum(v["count"] for data in found for v in data["violations"].values())
        pairs = [sum(data["pairs"].get(name, 0) for data in found) for name in PAIRS]
        biases = ", ".join(data["run"]["bias"] for data in found)
        counts = [f"{each:,}" for each in (*sums, violations)]
        family = f"`{model.removeprefix('tiny-')}`"
        rows.append([family, adapter, biases, *counts, "/".join(map(str, pairs))])
    return rows


def _print(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print("| " + " | ".join(columns) + " |")
    print("|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(row) + " |")
