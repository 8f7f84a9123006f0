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


def test_measurements_fill_their_columns(generator: Any) -> None:
    measured = {"qwen3": {"walks": 1200, "invalid": 0, "splits": 6000}}
    table = rows(generator.document(measured))
    assert table["dialect"][5:8] == ["walks", "invalid", "splits"]
    assert table["qwen3"][5:8] == ["1200", "0", "6000"]
    assert table["hermes"][5:8] == ["", "", ""]
