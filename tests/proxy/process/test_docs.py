"""docs/guide/gateway.md, followed as it stands: its commands, in their order, in one shell.

What it starts on other machines (`<!-- elsewhere -->`) is there already: a Valkey, and scripted
backends in the place of vLLM's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.servers.fake_backend import KEY, FakeBackend, running
from tests.support.servers.redis_server import redis_server
from tests.support.servers.script import Script
from toolgate_proxy.stack.processes import free_port

DOCUMENT = Path(__file__).parents[3] / "docs" / "guide" / "gateway.md"
BLOCK = re.compile(r"(<!-- elsewhere -->\n)?```sh\n(.*?)```", re.DOTALL)


def commands() -> list[str]:
    return [block for elsewhere, block in BLOCK.findall(DOCUMENT.read_text()) if not elsewhere]


@pytest.mark.skipif(shutil.which("curl") is None, reason="the document's commands need curl")
def test_commands_of_the_gateway_guide_work(tmp_path: Path) -> None:
    with ExitStack() as stack:
        backends = [stack.enter_context(running(FakeBackend())) for _ in range(3)]
        redis = stack.enter_context(redis_server())
        for backend, model in zip(backends, ("small", "small", "large"), strict=True):
            backend.info = backend.info.model_copy(update={"model": model, "models": (model,)})
            backend.scripts["Say hello."] = Script(("Hello.",))
        script = "\n".join(commands())
        places = {
            "127.0.0.1:4000": f"127.0.0.1:{(port := free_port())}",
            "--port 4000": f"--port {port}",
            "redis://127.0.0.1:6379/0": redis.url,
            "http://127.0.0.1:8001": backends[0].url,
            "http://127.0.0.1:8002": backends[1].url,
            "http://127.0.0.1:8003": backends[2].url,
            "$(openssl rand -hex 24)\nexport TOOLGATE_REDIS": f"{KEY}\nexport TOOLGATE_REDIS",
        }
        for written, here in places.items():
            assert written in script
            script = script.replace(written, here)
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        said = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "trap 'kill %1' EXIT\n" + script],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
    log = tmp_path / "gateway.log"
    assert said.returncode == 0, said.stdout + said.stderr + log.read_text()[-3000:]
    statuses = [line for line in said.stdout.splitlines() if re.fullmatch(r"\d{3}", line)]
    commented = re.findall(r"^ask \w+ +# (\d{3})", script, re.MULTILINE)
    assert statuses == commented == ["200", "403", "200", "429", "401"]
    assert "x-ratelimit-remaining-requests: 1" in said.stdout
    assert re.search(r"^retry-after: \d+", said.stdout, re.MULTILINE)
    assert '"counted":"fleet"' in said.stdout
