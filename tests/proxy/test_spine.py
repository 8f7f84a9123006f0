"""A stranger can follow a request: one streamed request enters few files, and its walk seldom goes
back and forth.

The numbers are ceilings: lower them when they are reached.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = {"gateway": 65, "core": 13}
RETURNS = {"pipeline": 12, "reader": 22, "engine": 11}


@pytest.mark.slow
def test_a_streamed_request_enters_few_files():
    command = [sys.executable, "scripts/trace_request.py"]
    traced = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = {room: int(number) for number, room in re.findall(r"(\d+) files of the (\w+)", traced)}
    returns = {
        name: int(number) for number, name in re.findall(r"(\d+) returns to .*/(\w+)\.py", traced)
    }
    for most, found in ((FILES, files), (RETURNS, returns)):
        assert found.keys() == most.keys()
        assert {name for name in most if found[name] > most[name]} == set(), traced
