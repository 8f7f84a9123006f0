"""The generator of docs/families.md."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from toolgate_core.dialects.registry import DIALECTS

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture
def generator(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return import_module("families_doc")


def rows(document: str) -> dict[str, list[str]]:
    """The cells of the table by dialect; those of its head by `dialect`."""
    lines = [line.replace("\\|", "/") for line in document.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0].split("`")[1] if "`" in row[0] else row[0]: row for row in cells}


def test_document_has_a_row_and_a_call_for_every_dialect_with_calls(generator: Any) -> None:
    document = generator.document({})
    expected = {name: each for name, each in DIALECTS.items() if each.calls}
    table = rows(document)
    assert set(table) == {*expected, "dialect", "---"}
    assert {len(row) for row in table.values()} == {7}
    for name, dialect in expected.items():
        assert ", ".join(dialect.models) == table[name][1]
        assert f"### {name}\n\n````text\n{dialect.goldens[0].text.strip()}\n````" in document


def test_measurements_have_a_table_of_their_own(generator: Any) -> None:
    assert "## Measurements" not in generator.document({})
    walked = {"walks": 1200, "calls": 1500, "invalid": 0, "splits": 6000, "differ": 0}
    split = {"our_readings": 50, "ours_right": 50, "vllm_readings": 50, "vllm_right": 41}
    measured = {
        "qwen3": walked
        | {"text_differ": 2, "vllm_read": 600, "vllm_differ": 3, "split_transcripts": split},
        "hermes": walked,
        "removed": walked,
    }
    section = generator.document(measured).partition("## Measurements")[2].partition("\n## ")[0]
    counts, _, differences = section.partition("Walks in which")
    assert rows(differences)["qwen3"][1] == "3"
    table = rows(counts)
    assert set(table) == {"dialect", "---", "qwen3", "hermes"}
    assert table["qwen3"][1:] == [
        *("1,200", "1,500", "0", "6,000", "0", "2", "600", "3"),
        *("50 of 50", "41 of 50"),
    ]
    assert table["hermes"][1:6] == ["1,200", "1,500", "0", "6,000", "0"]
    assert not any(table["hermes"][6:])
