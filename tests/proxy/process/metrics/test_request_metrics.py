"""The metrics of requests at a whole gateway, and of the worker processes of one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.alert_rules import missing_series
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import (
    MASTER_KEY,
    environment,
    wait_until_alive,
)
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key
from toolgate_proxy.stack.processes import free_port

CHAT = "/v1/chat/completions"
TOKEN = "scrape-token-of-the-tests"
HI = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


def read(text: str) -> Samples:
    """All samples, by name and labels without the process."""
    samples: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = frozenset(each for each in sample.labels.items() if each[0] != "pid")
            at = sample.name, labels
            samples[at] = samples.get(at, 0.0) + sample.value
    return samples


def value(samples: Samples, name: str, **labels: str) -> float:
    return samples.get((name, frozenset(labels.items())), 0.0)


async def test_requests_of_a_key_are_counted_by_model_api_and_status(
    gateway: str, redis_of_gateway: RedisServer, backend: FakeBackend, route: str
) -> None:
    alias = f"metered-{route}"
    backend.scripts["hi"] = Script(("Hello there",))
    key, _ = await make_key(redis_of_gateway.url, gateway, alias=alias, models=("tiny",))
    async with http_client(gateway, timeout=20) as http:
        admin = bearer(MASTER_KEY)

        async def scraped() -> Samples:
            return read((await http.get("/toolgate/metrics", headers=admin)).text)

        before = await scraped()
        mine = bearer(key)
        whole = await http.post(CHAT, json=HI, headers=mine)
        streamed = await http.post(CHAT, json={**HI, "stream": True}, headers=mine)
        refused = await http.post(CHAT, json={**HI, "n": "many"}, headers=mine)
        assert [each.status_code for each in (whole, streamed, refused)] == [200, 200, 400]
        after = await scraped()
    surface = {"model": "tiny", "surface": "chat_completions"}
    for status, count in (("200", 2), ("400", 1)):
        labels = {**surface, "key": alias, "status": status}
        assert value(after, "toolgate_requests_total", **labels) == count
    usage = whole.json()["usage"]
    for direction, name in (("input", "prompt_tokens"), ("output", "completion_tokens")):
        labels = {**surface, "direction": direction}
        grown = [value(each, "toolgate_tokens_total", **labels) for each in (before, after)]
        assert grown[1] - grown[0] == 2 * usage[name]
    counts = {"toolgate_request_seconds_count": 2.0, "toolgate_first_token_seconds_count": 1.0}
    for name, count in counts.items():
        assert value(after, name, **surface) - value(before, name, **surface) == count
    assert value(after, "toolgate_requests_in_flight", surface="chat_completions") == 0


@contextmanager
def two_workers(backend_url: str, folder: Path) -> Iterator[str]:
    """The URL of a gateway with two worker processes and a folder for their metrics."""
    (metrics := folder / "metrics").mkdir()
    port, log = free_port(), folder / "log"
    variables = (
        os.environ
        | environment(backend_url)
        | {
            "PROMETHEUS_MULTIPROC_DIR": str(metrics),
            "TOOLGATE_METRICS_TOKEN": TOKEN,
        }
    )
    command = [sys.executable, "-m", "toolgate_proxy", "proxy", "--model", "tiny"]
    command += ["--workers", "2", "--port", str(port)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, env=variables, stdout=output, stderr=output)
    try:
        url = f"http://127.0.0.1:{port}"
        wait_until_alive(url, log, lambda: process.poll() is None)
        yield url
    finally:
        workers = psutil.Process(process.pid).children(recursive=True)
        process.terminate()
        process.wait(30)
        psutil.wait_procs(workers, 20)


@pytest.mark.slow
def test_one_scrape_has_the_requests_of_all_workers(
    tmp_path: Path, spare_backend: FakeBackend
) -> None:
    spare_backend.scripts["hi"] = Script(("Hello there",))
    headers = bearer(TOKEN)
    with two_workers(spare_backend.url, tmp_path) as url:
        fresh = httpx.get(f"{url}/metrics", headers=headers, timeout=60).text
        assert missing_series(fresh, backend=False) == []
        served = set()
        count = 0
        # A new connection each time: whichever worker accepts it answers.
        while len(served) < 2 and count < 200:
            with httpx.Client(base_url=url, timeout=20) as http:
                master = bearer(MASTER_KEY)
                assert http.post(CHAT, json=HI, headers=master).status_code == 200
            count += 1
            names = (tmp_path / "metrics").glob("counter_*.db")
            served = {match[1] for each in names if (match := re.search(r"_(\d+)\.db$", each.name))}
        assert len(served) == 2
        samples = read(httpx.get(f"{url}/metrics", headers=headers, timeout=60).text)
    labels = {"model": "tiny", "surface": "chat_completions"}
    requests = value(samples, "toolgate_requests_total", **labels, key="master", status="200")
    assert requests == count
    assert value(samples, "toolgate_request_seconds_count", **labels) == count
