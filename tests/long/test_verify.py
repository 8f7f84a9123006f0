"""Servers are verified once and compared. The exit status is that of Toolgate's failures."""

from __future__ import annotations

import argparse
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.long import verify
from tests.long.verify import Endpoint, NotVerified, Starter, read
from tests.support.servers.contenders import NotStarted
from tests.verify.faults.table import fault_of
from tests.verify.harness import served
from tests.verify.reference_server.app import KEY, MODEL, ReferenceServer
from toolgate_core.dialects.registry import DIALECTS, SHAPES
from toolgate_verify.checks import select

BROKEN = "chat.schema.enum"
STARTED: list[str] = []


def test_each_shape_is_covered_once() -> None:
    assert [DIALECTS[name].shape for name in verify.families("shapes")] == [*SHAPES]


def test_unknown_families_are_refused() -> None:
    assert verify.families("qwen3,gemma4") == ["qwen3", "gemma4"]
    assert set(verify.families("all")) == {name for name in DIALECTS if name != "plain"}
    with pytest.raises(argparse.ArgumentTypeError, match="plain, colour"):
        verify.families("qwen3,plain,colour")


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "CACHE", tmp_path)
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
        assert verify.verify_all(chosen, "quick", again=False) == 0
        page = capsys.readouterr().out
        assert "| qwen3 | 100 % |" in page
        assert f"`{BROKEN}`" in page.split("## vllm: broken rules")[1]
    assert STARTED == ["qwen3", "vllm"]
    assert verify.verify_all({"vllm": chosen["vllm"]}, "quick", again=True) == 0
    assert STARTED == ["qwen3", "vllm", "vllm"]


@pytest.mark.exhaustive
def test_a_rule_that_toolgate_breaks_is_the_exit_status() -> None:
    assert verify.verify_all({"toolgate": server("toolgate", BROKEN)}, "quick", again=False) == 1


@pytest.mark.exhaustive
def test_a_server_that_does_not_start_is_the_exit_status(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chosen = {"qwen3": server("qwen3"), "vllm": ended}
    assert verify.verify_all(chosen, "quick", again=False) == 1
    captured = capsys.readouterr()
    assert "| qwen3 | 100 % |" in captured.out
    assert "vllm: exited with status 1" in captured.err


@pytest.mark.exhaustive
def test_the_report_is_kept(tmp_path: Path) -> None:
    with served(ReferenceServer()) as url:
        found = verify.verify(url, MODEL, KEY, "quick", tmp_path / "v1.2.json")
    assert found == read(tmp_path / "v1.2.json")
    assert found["counts"]["failed"] == found["counts"]["skipped"] == 0
    assert found["counts"]["passed"] > 300
    assert KEY not in (tmp_path / "v1.2.json").read_text()


@pytest.mark.exhaustive
@pytest.mark.parametrize("key", ["", "sk-any"])
def test_a_server_without_keys_is_not_blamed_for_them(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does it get the key of another server."""
    monkeypatch.setenv("TOOLGATE_API_KEY", "sk-of-another-server")
    with served(ReferenceServer(), keys=False) as url:
        found = verify.verify(url, MODEL, key, "quick", tmp_path / "open.json")
    assert found["counts"]["failed"] == 0
    skipped = {each["id"]: each["message"] for each in found["checks"] if each["verdict"] == "skip"}
    assert skipped.keys() == {
        f"{api}.errors.wrong_key" for api in ("chat", "responses", "messages")
    }
    wanted = "does not check keys" if key else "needs a run with a key"
    assert all(wanted in message for message in skipped.values())


def test_a_server_that_does_not_answer_has_no_report(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(NotVerified, match="does not answer"):
        verify.verify(f"http://127.0.0.1:{port}", MODEL, "", "quick", tmp_path / "none.json")
    assert not list(tmp_path.iterdir())
