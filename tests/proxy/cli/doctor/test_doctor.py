"""`toolgate doctor`: what it reports, and what is a problem."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.servers.fake_backend import KEY, FakeBackend, running
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.virtual_keys import key_of, put
from toolgate_proxy.cli.doctor import Finding, installation
from toolgate_proxy.cli.main import app
from toolgate_proxy.demo import model
from toolgate_proxy.keys.key import new_key
from toolgate_proxy.settings import settings
from toolgate_proxy.stack.processes import free_port


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in [*os.environ]:
        if name.startswith("TOOLGATE_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def doctor(*arguments: str, **environment: str) -> tuple[int, list[str]]:
    settings.cache_clear()
    command = ["doctor", "--url", f"http://127.0.0.1:{free_port()}", *arguments]
    result = CliRunner().invoke(app, command, env=environment)
    return result.exit_code, result.output.splitlines()


def test_an_installation_without_servers_has_no_problem() -> None:
    status, lines = doctor("--model", str(model.directory()))
    assert status == 0, lines
    assert lines[0].startswith(f"✓ toolgate: {version('toolgate-gateway')}, Python 3.")
    assert any(
        line.startswith("✓ gateway (extra [proxy]): ") and "litellm " in line for line in lines
    )
    assert any(line.startswith("- Redis: TOOLGATE_REDIS_URL is not set") for line in lines)
    assert any(line.startswith("✓ dialect: qwen3: ") for line in lines)
    assert lines[-1] == "All well."


def test_a_backend_is_described_or_the_reason_given(backend: FakeBackend) -> None:
    status, lines = doctor(TOOLGATE_BACKEND_URL=backend.url, TOOLGATE_BACKEND_KEY=KEY)
    assert status == 0, lines
    [line] = [line for line in lines if line.startswith(f"✓ backend {backend.url}: ")]
    assert "dialect qwen3" in line
    status, lines = doctor(TOOLGATE_BACKEND_URL=backend.url, TOOLGATE_BACKEND_KEY="wrong")
    assert status == 1
    assert any("refuses the key: set TOOLGATE_BACKEND_KEY" in line for line in lines)
    nowhere = f"http://127.0.0.1:{free_port()}"
    status, lines = doctor(TOOLGATE_BACKEND_URL=nowhere)
    assert (status, f"✗ backend {nowhere}: no answer" in lines) == (1, True)


@pytest.fixture
def backend() -> Iterator[FakeBackend]:
    with running(FakeBackend()) as found:
        yield found


def test_redis_is_asked_for_its_version(redis_at_hand: RedisServer) -> None:
    status, lines = doctor(TOOLGATE_REDIS_URL=redis_at_hand.url)
    assert status == 0, lines
    assert any(line.startswith("✓ Redis: Valkey ") for line in lines)
    redis_at_hand.kill()
    status, lines = doctor(TOOLGATE_REDIS_URL=redis_at_hand.url)
    assert status == 1
    assert any(line.startswith("✗ Redis: no answer at TOOLGATE_REDIS_URL") for line in lines)
    assert redis_at_hand.url not in "\n".join(lines)


def test_invalid_settings_are_problems_without_their_values() -> None:
    secret = "redis://:a-secret@[host"
    status, lines = doctor(TOOLGATE_REDIS_URL=secret, TOOLGATE_RESAMPLES="many")
    assert status == 1
    assert any(line.startswith("✗ settings: TOOLGATE_RESAMPLES: ") for line in lines)
    assert any(line.startswith("✗ settings: TOOLGATE_REDIS_URL: ") for line in lines)
    assert "a-secret" not in "\n".join(lines)


def test_versions_outside_the_tested_range_are_problems() -> None:
    requirements = ["pytest<2; extra == 'proxy'", "no-such-package; extra == 'proxy'"]
    findings = [*installation.packages_of("gateway", requirements)]
    assert findings[0].level == "problem"
    assert f"pytest {version('pytest')} is not in the tested range <2" in findings[0].text
    assert Finding("gateway", "not installed", "note") in findings


def test_a_gpu_is_described(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho 'NVIDIA H100 80GB HBM3, 81559 MiB, 570.1'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert [*installation.gpus()] == [
        Finding("GPU", "NVIDIA H100 80GB HBM3, 81559 MiB, driver 570.1")
    ]
    program.write_text("#!/bin/sh\necho 'No devices were found'; exit 6\n")
    assert [*installation.gpus()] == [
        Finding("GPU", "nvidia-smi failed: No devices were found", "problem")
    ]


def test_a_key_that_others_may_read_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "config" / "toolgate" / "master_key"
    path.parent.mkdir(parents=True)
    path.write_text("sk-secret\n")
    path.chmod(0o644)
    status, lines = doctor()
    assert status == 1
    assert any(line.startswith("✗ master key: ") for line in lines)
    assert "sk-secret" not in "\n".join(lines)


def test_a_directory_without_a_tokenizer_is_a_problem(tmp_path: Path) -> None:
    [finding] = installation.dialect(tmp_path)
    assert finding.level == "problem"


def test_settings_without_effect_are_problems() -> None:
    status, lines = doctor(TOOLGATE_KEYS_SECRET="x")
    assert status == 1
    assert any("Did you mean TOOLGATE_KEY_SECRET?" in line for line in lines)


async def test_keys_without_their_secret_are_a_problem(redis_at_hand: RedisServer) -> None:
    await put(redis_at_hand.url, key_of(new_key()))
    status, lines = await asyncio.to_thread(doctor, TOOLGATE_REDIS_URL=redis_at_hand.url)
    assert status == 1
    assert any(line.startswith("✗ Redis: ") and "TOOLGATE_KEY_SECRET" in line for line in lines)
