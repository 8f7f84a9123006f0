"""The outcomes of both servers as one Markdown table."""

import json
from pathlib import Path
from typing import Any

HEAD = """\
# The surface beside vLLM's own

Made by `make surface`: each value of each parameter sent to `vllm serve` (0.32.0, with
`--enable-auto-tool-choice --tool-call-parser hermes --reasoning-parser qwen3
--tool-strict-level parameter`) and to Toolgate's gateway on the same random model, streamed and
not. Do not edit.

*acts*: the answer shows it. *taken*: accepted, and there is nothing to see. *ignored*: accepted,
and the answer does not show it. *400*: refused in OpenAI's form by its name; *unclear*: not so. Two
words: not streamed, streamed. **Bold** is the better of two.

"""


def rank(row: dict[str, Any]) -> int:
    """The worse of the two forms: 4 is right, 0 a failure."""
    return min(_rank(outcome, wrong=row["wrong"]) for outcome in row["outcomes"])


def _rank(outcome: str, *, wrong: bool) -> int:
    if outcome.startswith(("fails", "dies")):
        return 0
    if outcome in ("acts", "taken", "ignored"):
        return 1 if wrong or outcome == "ignored" else 4
    unclear = outcome.endswith("unclear")
    return (3 if unclear else 4) if wrong else (2 if unclear else 3)


def document(results: Path) -> tuple[str, int]:
    """The page, and the number of rows in which ours is the worse one."""
    theirs = {_key(row): row for row in _rows(results / "vllm-strict.json")}
    lines: list[str] = []
    reasons: list[str] = []
    better = 0
    for row in _rows(results / "toolgate.json"):
        other = theirs.get(_key(row))
        if other is None:
            continue
        ours, vllms = rank(row), rank(other)
        better += ours > vllms
        if ours < vllms:
            reasons.append(f"- `{row['parameter']}`, {_safe(row['value'])}: {row['said']}\n")
        cells = [_cell(other, bold=vllms > ours), _cell(row, bold=ours > vllms)]
        name = f"`{row['parameter']}`" if " " not in row["parameter"] else row["parameter"]
        wrong = " ✗" if row["wrong"] else ""
        lines.append(f"| {name} | {_safe(row['value'])}{wrong} | {cells[0]} | {cells[1]} |\n")
    summary = (
        f"{len(lines)} values (✗: to be refused): ours is better in {better}, worse in "
        f"{len(reasons)}, the same in {len(lines) - better - len(reasons)}.\n\n"
    )
    if reasons:
        summary += "Worse, and what it says of it:\n\n" + "".join(reasons) + "\n"
    table = "| parameter | value | vLLM | Toolgate |\n|---|---|---|---|\n"
    return HEAD + summary + table + "".join(lines), len(reasons)


def _rows(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(path.read_text())
    return rows


def _key(row: dict[str, Any]) -> tuple[str, str]:
    return row["parameter"], row["value"]


def _cell(row: dict[str, Any], *, bold: bool) -> str:
    text = " / ".join(row["outcomes"])
    return f"**{text}**" if bold else text


def _safe(text: str) -> str:
    return text.replace("|", "\\|")
