"""Faults are drawn from all parts of the product, and change what a function does."""

import pytest

from tests.mutants.mutant import Gone, Mutant, drawn
from toolgate_core.pointer import pointer_of

FAULT = Mutant(
    module="toolgate_core.pointer",
    function="pointer_of",
    old='return "".join(f"/{escape(str(step))}" for step in steps)',
    new="return None",
)


def test_different_functions_of_all_packages_are_drawn():
    found = drawn(60, seed=1)
    assert len({(each.module, each.function) for each in found}) == 60
    packages = {each.module.partition(".")[0] for each in found}
    assert packages == {"toolgate_core", "toolgate_backend", "toolgate_proxy"}
    for each in found:
        compile(each.source(), str(each.path), "exec")


def test_an_installed_fault_changes_the_function():
    code = pointer_of.__code__
    try:
        FAULT.install()
        assert pointer_of(["a", 1]) is None
    finally:
        pointer_of.__code__ = code
    assert pointer_of(["a", 1]) == "/a/1"


@pytest.mark.parametrize("part", ["module", "function", "old"])
def test_a_fault_whose_place_is_gone_says_so(part):
    row = {**vars(FAULT), part: f"{getattr(FAULT, part)}_before"}
    with pytest.raises(Gone, match="_before"):
        Mutant(**row).source()
