"""Names of our distributions: checked at a release, and no other name in an install command."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import pytest

from tests.support.servers.loopback import Handler, handling

ROOT = Path(__file__).parents[2]
NAMES = ("toolgate-gateway", "toolgate-demo-model", "toolgate-verify")


class Index(Handler):
    owners: ClassVar[dict[str, str]] = {}
    down = False

    def do_GET(self):
        name = self.path.removeprefix("/pypi/").removesuffix("/json")
        owner = self.owners.get(name)
        roles = [{"role": "Owner", "user": owner}, {"role": "Maintainer", "user": "ours"}]
        project = {"info": {"name": name}, "ownership": {"organization": None, "roles": roles}}
        self.answer(503 if self.down else 200 if owner else 404, json.dumps(project).encode())


@pytest.fixture
def index(monkeypatch):
    monkeypatch.setattr(Index, "owners", {})
    with handling(Index) as url:
        yield f"{url}/"


def check(index):
    script = ROOT / "scripts" / "index_names.py"
    command = [sys.executable, script, "--owner", "ours", "--index", index]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_names_that_are_free_or_ours_pass(index, monkeypatch):
    monkeypatch.setattr(Index, "owners", {NAMES[0]: "ours"})
    done = check(index)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [f"{NAMES[0]}: ours", *(f"{x}: free" for x in NAMES[1:])]


def test_a_name_with_another_owner_is_refused(index, monkeypatch):
    monkeypatch.setattr(Index, "owners", {NAMES[1]: "others"})
    done = check(index)
    assert done.returncode == 1
    assert done.stderr.startswith(f"{NAMES[1]} belongs to others at ")


def test_an_index_that_does_not_respond_is_refused(index, monkeypatch):
    assert check("http://127.0.0.1:9").returncode == 1
    monkeypatch.setattr(Index, "down", True)
    done = check(index)
    assert done.returncode == 1
    assert "503" in done.stderr


INSTALL = re.compile(
    r"\b(?:pip3?|pipx|uv tool|poetry|pdm)[\"', ]+(?:install|add|run|download)\b(.*)|\buvx\b(.*)"
)
BARE = re.compile(r"""(?<![\w./-])toolgate(?=[\s"'`\[=<>~!@;)\\]|$)""")
EXTRA = re.compile(r"(?<![\w./-])toolgate\[[a-z]")
"""With an extra, a name is that of a distribution, wherever it is."""
LOOKUP = re.compile(r"""\b(?:version|distribution|requires|files)\(["']toolgate["']\)""")
HERE = {"tests/release/test_index_names.py"}


def foreign(line):
    if EXTRA.search(line) or LOOKUP.search(line):
        return True
    command = INSTALL.search(line)
    return command is not None and BARE.search(command[1] or command[2] or "") is not None


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("pip install toolgate", True),
        ("pip install -U 'toolgate>=0.1'", True),
        ("run `pip install 'toolgate[traces]'`", True),
        ('["pip", "install", "toolgate"]', True),
        ("uvx toolgate demo", True),
        ("version('toolgate')", True),
        ("pip install toolgate-gateway", False),
        ("pip install './toolgate_verify-0.1.0-py3-none-any.whl'", False),
        ("pip install /src/toolgate", False),
        ("pip install '.[proxy]'", False),
        ("helm install toolgate deploy/helm/toolgate", False),
    ],
)
def test_foreign_names_are_recognised(line, wanted):
    assert foreign(line) == wanted


def test_no_file_installs_a_distribution_that_is_not_ours():
    """`toolgate` at the package index belongs to others."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    found = [
        f"{name}:{number}: {line.strip()}"
        for name in listed
        if name not in HERE and (ROOT / name).is_file()
        for number, line in enumerate((ROOT / name).read_text(errors="ignore").splitlines(), 1)
        if foreign(line)
    ]
    assert not found
