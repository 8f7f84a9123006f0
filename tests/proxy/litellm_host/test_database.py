"""LiteLLM's database at the start of the gateway: LiteLLM's own command sets it up, with stand-ins
for prisma's client and its program, which need an engine that package registries do not have."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from litellm.proxy import proxy_server
from litellm.proxy.db.prisma_client import PrismaManager
from typer.testing import CliRunner, Result

from tests.support.litellm import prisma_stand_in
from toolgate_proxy.cli.main import app
from toolgate_proxy.litellm_host.database import has_tables
from toolgate_proxy.server import launcher

PROGRAM = '#!/bin/sh\necho "$PWD: $@: $DATABASE_URL" >> {log}\n{rest}\n'


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URL of the database that each started server sees."""
    urls: list[str] = []
    monkeypatch.setattr("uvicorn.run", lambda *_, **__: urls.append(os.environ["DATABASE_URL"]))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("faulthandler.enable", lambda: None)
    monkeypatch.setattr("toolgate_proxy.server.logs.set_up", lambda **_: None)
    for name in ("CONFIG_FILE_PATH", "DOCS_URL", "WORKER_CONFIG", "NUM_WORKERS", "DATABASE_URL"):
        monkeypatch.setenv(name, "")  # what the start sets is restored
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", "sk-0123456789abcdef")
    return urls


def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **general: Any) -> Result:
    """Start the gateway with a database that does not listen."""
    monkeypatch.setenv("URL", "postgresql://u:secret@127.0.0.1:9/litellm")
    config = launcher.make_config([launcher.Route("m", "m")])
    config["general_settings"] |= {"database_url": "os.environ/URL"} | general
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    return CliRunner().invoke(app, ["proxy", "--config", str(path), "--port", "0"])


def prisma(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str = "") -> Path:
    """Install prisma's stand-ins. Return the log of the program."""
    prisma_stand_in.install(monkeypatch)
    log, program = tmp_path / "log", tmp_path / "prisma"
    program.write_text(PROGRAM.format(log=log, rest=rest))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return log


def test_the_tables_are_migrated_before_the_server_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    log = prisma(tmp_path, monkeypatch)
    monkeypatch.setattr(PrismaManager, "build_request_log_indexes", lambda: True, raising=False)
    result = start(tmp_path, monkeypatch, database_connection_pool_limit=7)
    assert result.exit_code == 0, result.output
    [migration] = [line for line in log.read_text().splitlines() if "migrate deploy" in line]
    assert "litellm_proxy_extras: " in migration
    [url] = started
    assert url.startswith("postgresql://u:secret@127.0.0.1:9/litellm?")
    assert "connection_limit=7" in url
    assert url in migration


def test_a_gateway_whose_tables_cannot_be_migrated_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    prisma(tmp_path, monkeypatch, 'case "$*" in *deploy*) echo P1001 >&2; exit 1; esac')
    result = start(tmp_path, monkeypatch)
    assert (result.exit_code, started) == (1, [])
    assert "could not be set up" in result.output
    assert "secret" not in result.output


def test_a_missing_client_is_one_error_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    result = start(tmp_path, monkeypatch)
    assert (result.exit_code, started) == (1, [])
    [line] = [each for each in result.output.splitlines() if "prisma" in each]
    assert "prisma==0.11.0" in line
    assert Path(line.split("--schema ")[1]).is_file()


def test_without_a_database_nothing_is_set_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    assert start(tmp_path, monkeypatch, database_url="").exit_code == 0
    assert started == [""]


@pytest.mark.parametrize(
    ("error", "ready"),
    [(None, True), ('relation "LiteLLM_…" does not exist', False), ("connection refused", True)],
)
async def test_a_gateway_whose_database_is_empty_is_not_ready(
    monkeypatch: pytest.MonkeyPatch, error: str | None, ready: bool
) -> None:
    async def query_raw(_: str) -> None:
        if error is not None:
            raise RuntimeError(error)

    client = SimpleNamespace(db=SimpleNamespace(query_raw=query_raw))
    monkeypatch.setattr(proxy_server, "prisma_client", client)
    assert await has_tables() is ready
