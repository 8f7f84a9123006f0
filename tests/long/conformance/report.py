"""The results of conformance runs as one Markdown table."""

import json
from pathlib import Path
from typing import Any

from tests.support.markdown import table

COLUMNS = (
    *("contender", "model", "adapter", "bias", "requests", "errors", "choices", "ok", "truncated"),
    *("bad", "complete calls", "schema-valid", "forced calls right", "violations"),
    *("T=0 pairs equal/different", "grid s"),
)
BIASES = ("none", "closers", "hostile")


def report(directory: Path) -> int:
    """Print the table of all results in `directory`."""
    results = [json.loads(path.read_text()) for path in directory.glob("*.json")]
    print(table(COLUMNS, map(_row, sorted(results, key=_order))))
    return 0


def _order(data: dict[str, Any]) -> tuple[str, str, int, str]:
    run = data["run"]
    return run["model"], run.get("adapter") or "", BIASES.index(run["bias"]), run["contender"]


def _row(data: dict[str, Any]) -> list[str]:
    run = data["run"]
    head = [f"{run['contender']}{' (died)' if run['died'] else ''}", run["model"]]
    head += [run.get("adapter") or "", run["bias"]]
    if "total" not in data:
        return [*head, f"no result, exit {run['exit_code']}", *[""] * (len(COLUMNS) - 5)]
    total, pairs = data["total"], data["pairs"]
    forced = [data["cells"][f"C/{choice}"] for choice in ("required", "named")]
    others = [f", {n} {kind}" for kind, n in pairs.items() if kind not in ("equal", "different")]
    return [
        *head,
        str(total["req"]),
        ", ".join(f"{count} {kind}" for kind, count in total["err"].items()) or "0",
        *(str(total[name]) for name in ("choices", "ok", "trunc", "bad", "complete")),
        f"{100 * total['calls_valid'] / total['complete']:.1f} %" if total["complete"] else "-",
        f"{sum(c['ok'] for c in forced)}/{sum(c['choices'] for c in forced)}",
        str(sum(v["count"] for v in data["violations"].values())),
        f"{pairs.get('equal', 0)}/{pairs.get('different', 0)}" + "".join(others),
        f"{data['grid_seconds']:.0f}",
    ]
