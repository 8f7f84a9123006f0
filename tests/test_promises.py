"""Promises of the documents have tests: promises.yaml and the page about reliability name them."""

import ast
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROMISES = yaml.safe_load((Path(__file__).parent / "promises.yaml").read_text())
CASES = [
    pytest.param(page, row["says"], row["tests"], id=row["says"][:50])
    for page, rows in PROMISES.items()
    for row in rows
]


def exists(test):
    path, _, name = test.partition("::")
    if not (file := ROOT / path).exists():
        return False
    nodes = ast.parse(file.read_text()).body if name else []
    return not name or name in {getattr(node, "name", "") for node in nodes}


@pytest.mark.parametrize(("page", "says", "tests"), CASES)
def test_a_promise_is_in_its_document_and_its_tests_exist(page, says, tests):
    assert says in (ROOT / page).read_text()
    assert tests
    assert [test for test in tests if not exists(test)] == []


def test_tests_that_the_page_about_reliability_names_exist():
    page = (ROOT / "docs" / "reference" / "reliability.md").read_text()
    named = re.findall(r"`((?:backend|core|gateway|proxy)/[\w/.]+)`", page)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "tests" / name).exists()] == []
