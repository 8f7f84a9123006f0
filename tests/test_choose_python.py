"""The choice of the Python interpreter for .venv."""

import subprocess
import sys
from pathlib import Path

import pytest
from scripts import choose_python

SCRIPT = Path(choose_python.__file__)


def test_the_chosen_interpreter_has_the_same_version_and_can_create_environments():
    chosen = subprocess.check_output([sys.executable, SCRIPT], text=True).strip()
    check = [chosen, "-c", choose_python.VERSION]
    assert subprocess.check_output(check, text=True).strip() == str(sys.version_info[:2])


@pytest.mark.parametrize(
    "other", ["/no/such/python", sys.executable], ids=["missing", "of the same version"]
)
def test_a_slower_build_is_replaced_by_one_that_exists(other, monkeypatch):
    monkeypatch.setattr(choose_python, "SYSTEM", other)
    monkeypatch.setattr("sysconfig.get_config_var", lambda _: "--enable-shared")
    monkeypatch.setattr(sys, "base_prefix", "/opt")
    monkeypatch.setattr(sys, "executable", "this")
    assert choose_python.main() == ("this" if other == "/no/such/python" else other)
