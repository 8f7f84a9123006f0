"""The results of conformance runs as one Markdown table."""

import json
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
    """Print the table of all results in `directory`."""
    results = [json.loads(path.read_text()) for path in directory.glob("*.json")]
    results.sort(
        key=lambda data: (
            data["run"]["model"],
            data["run"].get("adapter") or "",
            ("none", "closers", "hostile").index(data["run"]["bias"]),
            ("vllm", "vllm-strict", "toolgate").index(data["run"]["contender"]),
        )
    )
    print("| " + " | ".join(COLUMNS) + " |")
    print("|" + "---|" * len(COLUMNS))
    for data in results:
        print("| " + " | ".join(report_row(data)) + " |")
    return 0
