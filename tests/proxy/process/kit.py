"""What several files of this folder use."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import Gateway
from tests.support.servers.redis_server import RedisServer
from tests.support.waiting import until

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
ROWS = yaml.safe_load(Path(__file__).with_name("requests.yaml").read_text())
HI = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}
BOTH_ROUTES = pytest.mark.parametrize("route", ["own", "litellm"], indirect=True, scope="session")
"""Chat completions are answered by the gateway's own route, and by LiteLLM's handler."""


@dataclass(frozen=True)
class Deployed:
    """A gateway whose model `tiny` is the scripted backend; no backend serves its model `down`."""

    gateway: Gateway
    backend: FakeBackend
    redis: RedisServer


@dataclass(frozen=True)
class Configured:
    """A gateway with all that teams configure in LiteLLM (see the fixture `configured`)."""

    gateway: Gateway
    redis: str
    records: Path

    @property
    def url(self):
        return self.gateway.url

    def events(self, event):
        """What the callback was told."""
        if not self.records.exists():
            return []
        told = [json.loads(line) for line in self.records.read_text().splitlines()]
        return [each for each in told if each["event"] == event]

    async def told(self, event, number=1, error=None):
        """The events of a kind, and with an error if one is named, once there are so many."""

        def found():
            return [each for each in self.events(event) if error in (None, each.get("error"))]

        return await until(found, holds=lambda events: len(events) >= number)


def value(metrics, name, **labels):
    """The sum of a metric's samples with exactly these labels, over all processes."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == name
        if {each: text for each, text in sample.labels.items() if each != "pid"} == labels
    )
