"""The figures that `make check` compares."""

from pathlib import Path

import pytest
from scripts import ratchet

CLASS = "class Bag:\n" + "".join(f"    field_{at}: int\n" for at in range(20))
SETS = "    def __init__(self) -> None:\n        self.other, self.field_0 = 1, 2\n"
IMPORTS = "".join(f"from .module_{at} import name\n" for at in range(13))
FOR_TYPES = (
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from toolgate_core import wire\n"
)


def checkout(folder: Path, text: str) -> Path:
    for package in ratchet.PACKAGES.values():
        (folder / package).mkdir(parents=True)
    (folder / "proxy/toolgate_proxy/chat").mkdir()
    (folder / "proxy/toolgate_proxy/chat/bag.py").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        (CLASS, "fields", {}),
        (CLASS + SETS, "fields", {"proxy/toolgate_proxy/chat/bag.py:Bag": 21}),
        (IMPORTS + FOR_TYPES, "imports", {}),
        (
            IMPORTS + FOR_TYPES + "from . import one, other\n",
            "imports",
            {"proxy/toolgate_proxy/chat/bag.py": 16},
        ),
    ],
)
def test_what_exceeds_a_bound_is_listed(tmp_path, text, kind, found):
    assert ratchet.measured(checkout(tmp_path, text))[kind] == found


def test_a_higher_figure_is_a_problem_and_never_written(tmp_path):
    now = ratchet.measured(checkout(tmp_path, CLASS + SETS))
    before = {**now, "lines": {**now["lines"], "proxy": 20}, "fields": {}}
    assert [*ratchet.exceeded(now, before)] == [
        "proxy: 23 lines, at most 20 are allowed",
        "proxy/toolgate_proxy/chat/bag.py:Bag: 21 fields, at most 20 are allowed",
    ]
    assert ratchet.lowered(now, before)["lines"]["proxy"] == 20
    assert ratchet.lowered(now, before)["fields"] == {}


def test_a_lower_figure_is_written(tmp_path):
    now = ratchet.measured(checkout(tmp_path, CLASS))
    before = {**now, "lines": {**now["lines"], "proxy": 99}, "fields": {"gone.py:Bag": 30}}
    assert not [*ratchet.exceeded(now, before)]
    assert ratchet.lowered(now, before)["lines"]["proxy"] == 21
    assert ratchet.lowered(now, before)["fields"] == {}
