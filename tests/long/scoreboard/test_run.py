"""The test: each server is verified, its report is kept, and the page has all of them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.long.scoreboard import run, servers
from tests.long.scoreboard.servers import Endpoint, Entry
from tests.verify.harness import served
from tests.verify.reference_server.app import KEY, MODEL, ReferenceServer

STARTED: list[str] = []


def entry(name: str, keys: bool) -> Entry:
    @contextmanager
    def start(_: Path) -> Iterator[Endpoint]:
        STARTED.append(name)
        with served(ReferenceServer(), keys=keys) as url:
            yield Endpoint(url, MODEL, KEY if keys else "")

    return Entry(name, ("httpx",), f"serve {name}", start)


@pytest.fixture
def known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Entry]:
    found = {"closed": entry("closed", True), "open": entry("open", False)}
    monkeypatch.setattr(run, "entries", lambda *_: found)
    monkeypatch.setattr(run, "CACHE", tmp_path / "cache")
    STARTED.clear()
    return found


def ran_with(monkeypatch: pytest.MonkeyPatch, *options: str) -> int:
    monkeypatch.setattr(sys, "argv", ["scoreboard", "a model", "--suite", "quick", *options])
    return run.main()


def counts(page: str, name: str) -> list[int]:
    """The numbers of a server's checks: passed, broken, refused, not shown."""
    [line] = [line for line in page.splitlines() if line.startswith(f"| **{name}** |")]
    return [int(cell) for cell in line.split("|")[5:9]]


@pytest.mark.exhaustive
def test_reports_of_earlier_runs_stay_on_the_page(
    known: Mapping[str, Entry], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    assert ran_with(monkeypatch, "--only", "closed", "--report", str(page)) == 0
    assert "**closed**" in page.read_text()
    assert "**open**" not in page.read_text()
    assert ran_with(monkeypatch, "--only", "open", "--report", str(page)) == 0
    assert STARTED == ["closed", "open"]
    closed, opened = (counts(page.read_text(), name) for name in ("closed", "open"))
    # The checks of keys are not shown by a server without keys, and nothing else differs.
    passed = closed[0]
    assert closed == [passed, 0, 0, 0]
    assert opened == [passed - 3, 0, 0, 3]


def test_llama_cpp_is_a_server_only_if_its_program_is_named() -> None:
    assert "llama.cpp" not in servers.entries(None, None)
    assert "llama.cpp" not in servers.entries(Path("llama-server"), None)
    assert "llama.cpp" in servers.entries(Path("llama-server"), Path("model.gguf"))


def test_versions_are_those_of_the_installed_packages() -> None:
    found = servers.entries(Path("llama-server"), Path("model.gguf"))
    assert servers.versions(found["litellm"], "b1").startswith("litellm ")
    assert servers.versions(found["llama.cpp"], "b1") == "b1"


def test_a_server_that_ends_at_once_is_not_waited_for(tmp_path: Path) -> None:
    with (
        pytest.raises(TimeoutError, match="ended"),
        servers.llama_cpp(Path("/bin/false"), tmp_path / "model.gguf"),
    ):
        pass
