"""LiteLLM's database at the start of the gateway: LiteLLM's own command sets it up, with stand-ins
for prisma's client and its program, which need an engine that package registries do not have."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml
from litellm.proxy.db.prisma_client import PrismaManager
from typer.testing import CliRunner

from tests.support.litellm import prisma_stand_in
from toolgate_proxy.cli.main import app
from toolgate_proxy.server import launcher

PROGRAM = '#!/bin/sh\necho "$PWD: $@: $DATABASE_URL" >> {log}\n{rest}\n'
FAIL = 'case "$*" in *deploy*) echo P1001 >&2; exit 1; esac'
URL = "postgresql://u:secret@127.0.0.1:9/litellm"


@pytest.mark.parametrize(
    ("program", "said"),
    [("", None), (FAIL, "Database migration cannot proceed"), (None, "pip install prisma==0.11.0")],
    ids=["migrated", "failed", "no-prisma"],
)
def test_the_tables_are_migrated_before_the_gateway_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str | None, said: str | None
) -> None:
    started: list[str] = []
    monkeypatch.setattr("uvicorn.run", lambda *_, **__: started.append(os.environ["DATABASE_URL"]))
    monkeypatch.setattr("signal.signal", lambda *_: None)
    monkeypatch.setattr("faulthandler.enable", lambda: None)
    monkeypatch.setattr("toolgate_proxy.server.logs.set_up", lambda **_: None)
    monkeypatch.setattr(PrismaManager, "build_request_log_indexes", lambda: True, raising=False)
    for name in ("CONFIG_FILE_PATH", "WORKER_CONFIG", "NUM_WORKERS", "DATABASE_URL"):
        monkeypatch.setenv(name, "")  # what the start sets is restored
    monkeypatch.setenv("TOOLGATE_MASTER_KEY", "sk-0123456789abcdef")
    monkeypatch.setenv("URL", URL)
    if program is not None:
        prisma_stand_in.install(monkeypatch)
        (tmp_path / "prisma").write_text(PROGRAM.format(log=tmp_path / "log", rest=program))
        (tmp_path / "prisma").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    config = launcher.make_config([launcher.Route("m", "m")])
    pool = {"database_url": "os.environ/URL", "database_connection_pool_limit": 7}
    config["general_settings"] |= pool
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    result = CliRunner().invoke(app, ["proxy", "--config", str(path), "--port", "0"])
    assert bool(result.exit_code) is (said is not None), result.output
    assert (said or "") in result.output
    assert "secret" not in result.output
    assert len(started) == (said is None)
    if said is None:
        [migration] = [x for x in (tmp_path / "log").read_text().splitlines() if "deploy" in x]
        assert "litellm_proxy_extras: migrate deploy" in migration
        assert migration.endswith(started[0])
        assert started[0].startswith(f"{URL}?connection_limit=7")
