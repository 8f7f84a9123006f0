"""docs/guide/litellm.md and docs/guide/secrets.md: what they promise holds."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.support.litellm import recorder
from tests.support.servers.fake_backend import KEY, FakeBackend, running
from tests.support.servers.gateway_process import KEY_SECRET, MASTER_KEY, Gateway, serving
from tests.support.servers.http_client import bearer
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script
from toolgate_proxy.server.launcher import Route, make_config

DOCS = Path(__file__).parents[3] / "docs"
CHAT = "/v1/chat/completions"


def block(page: str, language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.DOTALL)
    return str(found)


def without(mark: str, diff: str) -> Any:
    """The file on the other side of a diff."""
    kept = (line[1:] for line in diff.splitlines() if not line.startswith(mark))
    return yaml.safe_load("\n".join(kept))


def ask(gateway: Gateway, key: str = MASTER_KEY, model: str = "tiny") -> httpx.Response:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    headers = bearer(key)
    return httpx.post(f"{gateway.url}{CHAT}", json=body, headers=headers, timeout=30)


def wait_for_probes(gateway: Gateway) -> None:
    """A starting gateway gets no requests before it is ready."""
    headers = bearer(MASTER_KEY)
    deadline = time.monotonic() + 10
    while True:
        status = httpx.get(f"{gateway.url}/toolgate/status", headers=headers).json()
        backends = [each for model in status["models"] for each in model["backends"]]
        if all(each["up"] or each["error"] for each in backends):
            return
        assert time.monotonic() < deadline, backends
        time.sleep(0.05)


@pytest.mark.parametrize("priced", [False, True])
def test_six_lines_make_a_toolgate_gateway_of_litellms_configuration(
    spare_backend: FakeBackend, tmp_path: Path, priced: bool
) -> None:
    spare_backend.scripts["hi"] = Script(("Hello",))
    diff = block("guide/litellm.md", "diff")
    before, after = without("+", diff), without("-", diff)
    assert [row["model_name"] for row in before["model_list"]] == ["qwen", "gpt-4o"]
    assert len(re.findall(r"^\+", diff, re.M)) == 6
    params = after["model_list"][0]["litellm_params"]
    params |= {"api_base": spare_backend.url, "model": "toolgate/tiny"}
    if priced:
        params |= {"input_cost_per_token": 0.25, "output_cost_per_token": 0.5}
    shutil.copy(Path(recorder.__file__), tmp_path)
    after["litellm_settings"]["callbacks"] = ["recorder.recorder"]
    config, records = tmp_path / "config.yaml", tmp_path / "records"
    config.write_text(yaml.safe_dump(after))
    more = {"OPENAI_API_KEY": "sk-none", "RECORDED": str(records)}
    arguments = ["--config", str(config)]
    with serving(arguments, spare_backend.url, tmp_path / "log", **more) as gateway:
        assert ask(gateway, model="qwen").json()["choices"][0]["message"]["content"] == "Hello"
    log = (tmp_path / "log").read_text()
    assert "Model qwen: own route." in log
    assert "Warning" not in log
    events = [json.loads(line) for line in records.read_text().splitlines()]
    [cost] = [each["payload"]["response_cost"] for each in events if each["event"] == "success"]
    assert (cost > 0) == priced


def test_the_backends_key_is_changed_without_an_interruption(tmp_path: Path) -> None:
    config = make_config([Route("tiny", "tiny")])
    with running(FakeBackend()) as first, running(FakeBackend()) as second:
        rows = []
        for name, backend in (("A", first), ("B", second)):
            backend.scripts["hi"] = Script(("Hello",))
            params = {"model": "toolgate/tiny", "api_base": backend.url}
            params["api_key"] = f"os.environ/BACKEND_KEY_{name}"
            rows.append({"model_name": "tiny", "litellm_params": params})
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(config | {"model_list": rows}))
        keys = {"BACKEND_KEY_A": KEY, "BACKEND_KEY_B": KEY}

        def used(log: str) -> tuple[int, int]:
            """The requests of each backend, from a gateway that has these keys."""
            first.requests.clear()
            second.requests.clear()
            arguments = ["--config", str(path)]
            with serving(arguments, first.url, tmp_path / log, **keys) as gateway:
                wait_for_probes(gateway)
                assert {ask(gateway).status_code for _ in range(12)} == {200}
            return len(first.requests), len(second.requests)

        first.key = "new"  # restarted with another VLLM_API_KEY
        assert used("old") == (0, 12)
        keys["BACKEND_KEY_A"] = "new"
        assert all(used("both"))
        second.key = keys["BACKEND_KEY_B"] = "new"
        assert all(used("new"))


def test_keys_move_to_another_secret_with_a_second_database(
    spare_backend: FakeBackend, spare_redis: RedisServer, tmp_path: Path
) -> None:
    spare_backend.scripts["hi"] = Script(("Hello",))
    entries = yaml.safe_load(block("guide/litellm.md", "yaml"))
    [entry] = entries["keys"]
    entry["models"] = ["tiny"]
    file = tmp_path / "keys.yaml"
    file.write_text(yaml.safe_dump(entries))
    other = spare_redis.url.removesuffix("/0") + "/1"
    sides = ((spare_redis.url, KEY_SECRET), (other, "another secret of thirty-two bytes"))
    for redis, secret in sides:
        environment = {"TOOLGATE_REDIS_URL": redis, "TOOLGATE_KEY_SECRET": secret}
        command = [sys.executable, "-m", "toolgate_proxy", "keys", "import", str(file)]
        done = subprocess.run(
            command, env=os.environ | environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("Imported: 1.")
    arguments = ["--model", "tiny"]
    with serving(arguments, spare_backend.url, tmp_path / "old", sides[0][0]) as old:
        more = {"TOOLGATE_KEY_SECRET": sides[1][1]}
        with serving(arguments, spare_backend.url, tmp_path / "new", other, **more) as new:
            for gateway in (old, new):
                assert ask(gateway, entry["key"]).status_code == 200
