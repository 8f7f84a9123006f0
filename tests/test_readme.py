"""What the README says of clients and models is what the tests and the code have."""

from __future__ import annotations

import re
from pathlib import Path

from toolgate_core.dialects.registry import DIALECTS, PLAIN

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAX_LINES = 119


def section(title: str) -> str:
    return README.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_client_has_a_program_that_a_test_runs() -> None:
    tests = "\n".join(
        path.read_text()
        for folder in ("gateway", "proxy/process")
        for path in (ROOT / "tests" / folder).rglob("test_*.py")
    )
    rows = [line for line in section("Works with").splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        linked = [ROOT / path for path in re.findall(r"\]\((tests/[^)]+)\)", row)]
        assert linked, row
        for path in linked:
            assert path.exists()
            assert path.name.startswith("test_") or f'"{path.name}"' in tests, path.name


def test_the_number_of_dialects_is_that_of_the_registry() -> None:
    [number] = re.findall(r"\[(\d+) dialects\]", section("Models"))
    assert int(number) == len(DIALECTS.keys() - {PLAIN.name})


def test_models_are_those_of_dialects() -> None:
    """The first word of each model, and its version if the row has one."""
    named = " ".join(model for dialect in DIALECTS.values() for model in dialect.models)
    models = [
        model.strip()
        for line in section("Models").splitlines()
        if line.startswith("| ") and not line.startswith("| family")
        for model in re.split(r"[,;|]", line.split("|")[2].replace("…", ""))
    ]
    assert len(models) > 20
    for model in models:
        word = re.split(r"[\s-]", model)[0]
        version = re.fullmatch(r"[A-Z]*\d[\d.]*", word)
        assert (word if version is None else word.lstrip("KVRM")) in named, model


def test_the_readme_is_short() -> None:
    assert README.count("\n") <= MAX_LINES
