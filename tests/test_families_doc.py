"""The generator of docs/reference/families.md."""

import re
from importlib import import_module
from pathlib import Path

import pytest

from toolgate_core.dialects.registry import DIALECTS

SCRIPTS = Path(__file__).parents[1] / "scripts"


@pytest.fixture
def generator(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return import_module("families_doc")


def test_document_has_a_line_for_every_dialect_with_calls(generator):
    expected = {name: each for name, each in DIALECTS.items() if each.calls}
    lines = dict(re.findall(r"^- `(\w+)`: (.+)$", generator.document({}), re.M))
    assert set(lines) == set(expected)
    for name, dialect in expected.items():
        assert lines[name].startswith(", ".join(dialect.models))
        for limit in dialect.limits:
            shown = limit.replace("A string value cannot contain", "Excluded:")
            assert shown in lines[name]


def test_document_has_a_call_of_every_shape(generator):
    document = generator.document({})
    shapes = {each.shape for each in DIALECTS.values() if each.calls and each.shape}
    assert len(shapes) > 5
    for shape in shapes:
        section = document.partition(f"## Shape {shape}\n")[2].partition("\n## ")[0]
        text = section.split("````")[1].removeprefix("text\n").strip()
        calls = [each for each in DIALECTS.values() if each.shape == shape]
        assert any(text == golden.text.strip() for each in calls for golden in each.goldens)


def test_measurements_are_summed_over_the_dialects(generator):
    assert "## Measurements" not in generator.document({})
    walked = {"walks": 1200, "calls": 1500, "invalid": 0, "splits": 6000, "differ": 0}
    measured = {
        "qwen3": walked | {"text_differ": 2},
        "glm45": walked,
        "hermes": walked,
        "removed": walked,
    }
    text = generator.document(measured).partition("## Measurements")[2]
    section = " ".join(text.split())
    assert "Of 3,600 walks with 4,500 calls in 3 dialects, 0 calls violate" in section
    assert "0 of 18,000 split readings differ" in section
    assert "finds other calls in 2." in section
