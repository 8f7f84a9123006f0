"""The README's models are those of dialects, and each client of the guide has a test."""

import re
from pathlib import Path

from toolgate_core.dialects.registry import DIALECTS, PLAIN

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CLIENTS = ROOT / "docs" / "guide" / "clients.md"
MAX_LINES = 80


def section(text, title):
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_every_client_has_a_program_that_a_test_runs():
    tests = "\n".join(
        path.read_text()
        for folder in ("gateway", "proxy/process")
        for path in (ROOT / "tests" / folder).rglob("test_*.py")
    )
    page = section(CLIENTS.read_text(encoding="utf-8"), "SDKs").partition("\nSome libraries")[0]
    rows = [line for line in page.splitlines() if line.startswith("- ")]
    assert len(rows) > 8
    for row in rows:
        linked = [ROOT / path for path in re.findall(r"\]\(\.\./\.\./(tests/[^)]+)\)", row)]
        assert linked, row
        for path in linked:
            assert path.exists()
            assert path.name.startswith("test_") or f'"{path.name}"' in tests, path.name


def test_the_number_of_dialects_is_that_of_the_registry():
    [number] = re.findall(r"\[(\d+) dialects\]", section(README, "Models"))
    assert int(number) == len(DIALECTS.keys() - {PLAIN.name})


def test_models_are_those_of_dialects():
    named = " ".join(model for dialect in DIALECTS.values() for model in dialect.models)
    listed = section(README, "Models").partition("among them:")[2]
    models = [model.strip() for model in listed.strip().rstrip(".").split(",")]
    assert len(models) > 15
    assert not [model for model in models if model not in named]


def test_the_readme_is_short():
    assert README.count("\n") <= MAX_LINES
