"""Alerts see the first event: their series exist before it."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.support.alert_rules import missing_series
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import bearer
from tests.support.servers.redis_server import RedisServer

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
