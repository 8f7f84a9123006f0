"""The figures that `make check` compares."""

from pathlib import Path

import pytest
from scripts import ratchet

CLASS = "class Bag:\n" + "".join(f"    field_{at}: int\n" for at in range(20))
SLOTS = '    __slots__ = ("field_0", "slot")\n'
SETS = "    async def begin(self) -> None:\n        self.other, self.field_0 = 1, self.unset\n"
IMPORTS = "".join(f"from .module_{at} import name\n" for at in range(13))
FOR_TYPES = (
    "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from toolgate_core import wire\n"
)


PRIVATE_NAMES = (
    'A = PrivateName("a", "use")\nB = (*_used("use", "b", "c"), *_used("use", "d"))\n',
    'T = """\nlitellm:\n    a(b\n        c): use\n    d: use\n"""\n',
)


def checkout(folder: Path, text: str) -> Path:
    files = {"proxy/toolgate_proxy/chat/bag.py": text, "tests/data.yaml": "a: 1\nb: 2\n"}
    files |= {place: PRIVATE_NAMES[host == "LiteLLM"] for host, place in ratchet.PRIVATE.items()}
    files["proxy/toolgate_proxy/features/web/search.py"] = "def search(): ...\n"
    files["proxy/toolgate_proxy/features/web/engines.toml"] = "[a]\n"
    for place, content in files.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_text(content)
    return folder


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        (CLASS, "fields", {}),
        (CLASS + SLOTS + SETS, "fields", {"proxy/toolgate_proxy/chat/bag.py:Bag": 22}),
        (IMPORTS + FOR_TYPES, "imports", {}),
        (
            IMPORTS + FOR_TYPES + "from . import one, other\n",
            "imports",
            {"proxy/toolgate_proxy/chat/bag.py": 16},
        ),
        ("", "data", {"core": 0, "backend": 0, "proxy": 1, "verify": 0, "tests": 2}),
        ("", "private", {"LiteLLM": 2, "vLLM": 4}),
        ("pass\n", "trunk", {"all": 1 + sum(text.count("\n") for text in PRIVATE_NAMES)}),
    ],
)
def test_what_exceeds_a_bound_is_listed(tmp_path, text, kind, found):
    assert ratchet.measured(checkout(tmp_path, text))[kind] == found


def test_a_higher_figure_is_a_problem_and_never_written(tmp_path):
    now = ratchet.measured(checkout(tmp_path, CLASS + SETS))
    before = {**now, "lines": {**now["lines"], "proxy": 20}, "fields": {}}
    assert [*ratchet.exceeded(now, before)] == [
        "proxy: 30 lines, at most 20 are allowed",
        "proxy/toolgate_proxy/chat/bag.py:Bag: 21 fields, at most 20 are allowed",
    ]
    assert ratchet.lowered(now, before)["lines"]["proxy"] == 20
    assert ratchet.lowered(now, before)["fields"] == {}


def test_a_lower_figure_is_written(tmp_path):
    now = ratchet.measured(checkout(tmp_path, CLASS))
    before = {**now, "lines": {**now["lines"], "proxy": 99}, "fields": {"gone.py:Bag": 30}}
    assert not [*ratchet.exceeded(now, before)]
    assert ratchet.lowered(now, before)["lines"]["proxy"] == 28
    assert ratchet.lowered(now, before)["fields"] == {}


def test_files_beside_the_trunk_exist():
    for pattern in ratchet.BESIDE_THE_TRUNK:
        assert [*ratchet.ROOT.glob(pattern)], pattern
