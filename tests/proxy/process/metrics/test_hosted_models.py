"""Models of other providers have tokens and times in the metrics, in each API that they serve."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from tests.proxy.process.metrics.test_request_metrics import read, value
from tests.support.alert_rules import missing_series
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.fake_provider import OUTPUT, PROMPT, FakeProvider, running
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer
from toolgate_proxy.server.launcher import make_config

BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat_completions": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}]}),
    "messages": (
        "/v1/messages",
        {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 50},
    ),
    "responses": ("/v1/responses", {"input": "hi"}),
}


@pytest.fixture(scope="module")
def hosting(
    backend_of_session: FakeBackend, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A gateway with a model for each case."""
    folder = tmp_path_factory.mktemp("hosted")
    with running(FakeProvider()) as provider:
        params = {"model": "openai/gpt-x", "api_base": provider.url, "api_key": "k"}
        rows = [
            {"model_name": f"{surface}-{stream}", "litellm_params": params}
            for surface in BODIES
            for stream in ("whole", "stream")
        ]
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump(make_config([]) | {"model_list": rows}))
        with serving(["--config", str(path)], backend_of_session.url, folder / "log") as gateway:
            yield gateway.url


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("surface", BODIES)
async def test_tokens_and_times_of_a_hosted_model(hosting: str, surface: str, stream: bool) -> None:
    model = f"{surface}-{'stream' if stream else 'whole'}"
    labels = {"model": model, "surface": surface}
    async with http_client(hosting, headers=bearer(MASTER_KEY), timeout=60) as http:
        path, body = BODIES[surface]
        response = await http.post(path, json={**body, "model": model, "stream": stream})
        assert response.status_code == 200, response.text
        async with asyncio.timeout(20):  # LiteLLM may report the tokens after the response
            while True:
                samples = read((await http.get("/toolgate/metrics")).text)
                tokens = [
                    value(samples, "toolgate_tokens_total", **labels, direction=each)
                    for each in ("input", "output")
                ]
                if all(tokens):
                    break
                await asyncio.sleep(0.1)
    assert tokens == [PROMPT, OUTPUT]
    assert value(samples, "toolgate_request_seconds_count", **labels) == 1
    for name in ("toolgate_first_token_seconds_count", "toolgate_inter_token_seconds_count"):
        assert value(samples, name, **labels) == stream


MODELS = ["--model", "tiny", "--model", "other=tiny"]


def test_a_new_gateway_has_each_series_of_the_alert_rules(
    tmp_path: Path, spare_backend: FakeBackend, redis_of_gateway: RedisServer
) -> None:
    with serving(MODELS, spare_backend.url, tmp_path / "log", redis_of_gateway.url) as gateway:
        headers = bearer(MASTER_KEY)
        text = httpx.get(f"{gateway.url}/toolgate/metrics", headers=headers, timeout=60).text
    assert missing_series(text, backend=False) == []
    for model in ("tiny", "other"):
        assert f'toolgate_failed_requests_total{{model="{model}"}} 0.0' in text
