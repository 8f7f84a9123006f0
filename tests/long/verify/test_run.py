"""Servers are verified once and compared. The exit status is that of Toolgate's failures."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.long.verify import run
from tests.long.verify.servers import Endpoint, Starter
from tests.support.servers.contenders import NotStarted
from tests.verify.faults.table import fault_of
from tests.verify.harness import served
from tests.verify.reference_server.app import KEY, MODEL, ReferenceServer
from toolgate_core.dialects.registry import DIALECTS, SHAPES
from toolgate_verify.checks import select

BROKEN = "chat.schema.enum"
STARTED: list[str] = []


def test_each_shape_is_covered_once() -> None:
    assert [DIALECTS[name].shape for name in run.families("shapes")] == [*SHAPES]


def test_unknown_families_are_refused() -> None:
    assert run.families("qwen3,gemma4") == ["qwen3", "gemma4"]
    assert set(run.families("all")) == {name for name in DIALECTS if name != "plain"}
    with pytest.raises(argparse.ArgumentTypeError, match="plain, colour"):
        run.families("qwen3,plain,colour")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "CACHE", tmp_path)
    STARTED.clear()


def server(name: str, broken: str = "") -> Starter:
    """A server that keeps all rules, or breaks one."""

    @contextmanager
    def start() -> Iterator[Endpoint]:
        STARTED.append(name)
        [check] = select(only=[broken]) if broken else [None]
        with served(ReferenceServer(fault_of(check) if check else None)) as url:
            yield Endpoint(url, MODEL, KEY)

    return start


@contextmanager
def ended() -> Iterator[Endpoint]:
    raise NotStarted("exited with status 1")
    yield


@pytest.mark.exhaustive
def test_servers_are_verified_once_and_compared(capsys: pytest.CaptureFixture[str]) -> None:
    chosen = {"qwen3": server("qwen3"), "vllm": server("vllm", BROKEN)}
    for _ in range(2):  # the second time from the reports
        assert run.verify_all(chosen, "quick", again=False) == 0
        page = capsys.readouterr().out
        assert "| qwen3 | 100 % |" in page
        assert f"`{BROKEN}`" in page.split("## vllm: broken rules")[1]
    assert STARTED == ["qwen3", "vllm"]
    assert run.verify_all({"vllm": chosen["vllm"]}, "quick", again=True) == 0
    assert STARTED == ["qwen3", "vllm", "vllm"]


@pytest.mark.exhaustive
def test_a_rule_that_toolgate_breaks_is_the_exit_status() -> None:
    assert run.verify_all({"toolgate": server("toolgate", BROKEN)}, "quick", again=False) == 1


@pytest.mark.exhaustive
def test_a_server_that_does_not_start_is_the_exit_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = {"qwen3": server("qwen3"), "vllm": ended}
    assert run.verify_all(chosen, "quick", again=False) == 1
    captured = capsys.readouterr()
    assert "| qwen3 | 100 % |" in captured.out
    assert "vllm: exited with status 1" in captured.err
