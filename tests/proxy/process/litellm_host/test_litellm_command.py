"""The gateway started by LiteLLM's own command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY, environment, wait_until_alive
from tests.support.servers.http_client import http_client, openai_client
from tests.support.servers.script import Script
from toolgate_proxy.stack.processes import free_port

CONFIG = Path(__file__).parents[4] / "litellm_config.yaml"


@contextmanager
def own_process(command: list[str], backend_url: str, log: Path) -> Iterator[str]:
    """Runs a command that takes a port until the context is left; gives its URL."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    variables = os.environ | environment(backend_url)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--port", str(port)], env=variables, stdout=output, stderr=output
        )
    try:
        wait_until_alive(url, log, lambda: process.poll() is None)
        yield url
    finally:
        process.terminate()
        process.wait(20)


async def test_litellm_command_serves_our_provider(
    spare_backend: FakeBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`litellm --config litellm_config.yaml`, with our package installed beside it."""
    spare_backend.scripts["hi"] = Script(("<think>\nhm\n</think>\n\nHello",))
    program = Path(sys.executable).with_name("litellm")
    command = [str(program), "--config", str(CONFIG), "--host", "127.0.0.1"]
    with own_process(command, spare_backend.url, tmp_path / "log") as url:
        async with openai_client(url, MASTER_KEY) as client:
            ask: dict[str, Any] = {
                "model": "toolgate",
                "messages": [{"role": "user", "content": "hi"}],
                "n": 2,
            }
            response = await client.chat.completions.create(**ask)
            assert [c.message.content for c in response.choices] == ["Hello", "Hello"]
            stream = await client.chat.completions.create(
                **ask, stream=True, stream_options={"include_usage": True}
            )
            chunks = [chunk async for chunk in stream]
            assert chunks[-1].usage == response.usage
            for params in (
                {"tool_choice": "required"},
                {"tool_choice": "required", "stream": True},
            ):
                with pytest.raises(openai.BadRequestError) as refusal:
                    await client.chat.completions.create(**ask, **params)
                assert (refusal.value.code, refusal.value.param) == ("invalid_tools", "tools")
        async with http_client(url) as stranger:
            answer = await stranger.post("/v1/chat/completions", json=ask)
            assert answer.status_code == 401
