"""Temporary directories of runs: cleanup of dead runs, and logs of failed ones."""

import os
import subprocess
import sys
import tempfile

import pytest

from toolgate_core.run_directory import KEPT_SECONDS, RunDirectory, remove_dead_runs


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_run_directory_is_removed_at_the_end(temporary):
    with RunDirectory() as directory:
        (directory.path / "file").touch()
        assert [*temporary.iterdir()] == [directory.path]
    assert not [*temporary.iterdir()]


def test_directories_of_live_runs_are_not_removed():
    with RunDirectory() as first, RunDirectory() as second:
        assert first.path.is_dir()
        assert second.path.is_dir()


def test_directory_of_a_killed_run_is_removed_at_the_next_start(temporary):
    program = (
        "import os, signal, tempfile\n"
        "from toolgate_core.run_directory import RunDirectory\n"
        "(RunDirectory().path / 'file').touch()\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "TMPDIR": str(temporary)}, check=False
    )
    [dead] = temporary.iterdir()
    with RunDirectory() as directory:
        assert not dead.exists()
        assert directory.path.is_dir()


def test_kept_logs_are_removed_after_a_day(temporary):
    with RunDirectory() as directory:
        logs = directory.path / "logs"
        logs.mkdir()
        (logs / "backend.log").write_text("reason")
        kept = directory.keep(logs)
    assert [*temporary.iterdir()] == [kept]
    remove_dead_runs()
    assert (kept / "backend.log").read_text() == "reason"
    expired = kept.stat().st_mtime - KEPT_SECONDS - 1
    os.utime(kept, (expired, expired))
    remove_dead_runs()
    assert not kept.exists()
