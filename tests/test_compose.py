"""docker-compose.yml as far as it can be held without a Docker engine."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def services():
    text = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
    return yaml.safe_load(text)["services"]


@pytest.mark.parametrize(
    ("service", "after"), [("backend", "redis"), ("backend-cpu", "redis"), ("proxy", "backend")]
)
def test_each_service_waits_for_a_healthy_dependency(services, service, after):
    assert services[service]["depends_on"] == {after: {"condition": "service_healthy"}}
    assert services[after]["healthcheck"]["test"]


@pytest.mark.parametrize("profile", ["gpu", "cpu"])
def test_each_profile_contains_redis_a_backend_and_a_proxy(services, profile):
    chosen = {name for name, service in services.items() if profile in service["profiles"]}
    assert {name.removesuffix("-cpu") for name in chosen} == {"redis", "backend", "proxy"}
    for name in chosen:
        assert set(services[name].get("depends_on", {})) <= chosen


def test_secrets_come_from_the_environment(services):
    secrets = {
        value
        for service in services.values()
        for name, value in service["environment"].items()
        if name.endswith(("KEY", "PASSWORD", "TOKEN"))
    }
    assert len(secrets) >= 4
    assert all(value.startswith("${") for value in secrets)
