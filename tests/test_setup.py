"""Set-up chooses the Python interpreter for .venv, and installs libnuma or says how to."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import choose_python


def test_the_chosen_interpreter_has_the_same_version_and_can_create_environments():
    chosen = subprocess.check_output([sys.executable, choose_python.__file__], text=True).strip()
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


LIBNUMA = Path(__file__).parents[1] / "scripts" / "install_libnuma.sh"


def command(folder, name, *lines):
    path = folder / name
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)


@pytest.fixture
def machine(tmp_path):
    """A folder of commands: a machine without libnuma, whose apt-get installs it. `log` has what
    ran."""
    for name in ("bash", "env", "sh"):
        (tmp_path / name).symlink_to(f"/bin/{name}" if name != "env" else "/usr/bin/env")
    command(tmp_path, "uname", "echo Linux")
    command(tmp_path, "id", "echo 1000")
    command(tmp_path, "python", f"test -e {tmp_path}/installed")
    ran, installed = f'echo "apt-get $*" >>{tmp_path}/log', f": >{tmp_path}/installed"
    command(tmp_path, "apt-get", ran, installed)
    return tmp_path


def run(machine):
    """The exit status, the error, and the installations."""
    done = subprocess.run(
        ["/bin/bash", LIBNUMA, "python"],
        env={**os.environ, "PATH": str(machine)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    log = machine / "log"
    return done.returncode, done.stderr, log.read_text().splitlines() if log.exists() else []


def test_nothing_is_done_if_it_is_there(machine):
    (machine / "installed").touch()
    assert run(machine) == (0, "", [])


def test_root_gets_it(machine):
    command(machine, "id", "echo 0")
    status, error, log = run(machine)
    assert (status, error) == (0, "")
    assert log == ["apt-get install --yes --quiet libnuma1"]


def test_a_user_without_a_password_for_sudo_gets_it(machine):
    command(machine, "sudo", 'test "$1" = -n && shift', '"$@"')
    command(machine, "true", "exit 0")
    assert run(machine)[::2] == (0, ["apt-get install --yes --quiet libnuma1"])


def test_other_users_are_told_what_to_install(machine):
    status, error, log = run(machine)
    assert (status, log) == (1, [])
    assert "install libnuma1" in error


def test_a_failed_installation_says_what_to_install(machine):
    command(machine, "id", "echo 0")
    command(machine, "apt-get", "exit 1")
    status, error, _ = run(machine)
    assert status == 1
    assert error.count("\n") == 1
    assert "install libnuma1" in error
