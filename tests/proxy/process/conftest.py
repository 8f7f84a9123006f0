"""Gateways that live for the session, each with its own backend and Redis server."""

import shutil
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.proxy.process.kit import Configured, Deployed
from tests.support.servers import fake_provider
from tests.support.servers.fake_backend import FakeBackend, running
from tests.support.servers.fake_provider import FakeProvider
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.http_client import http_client, openai_client
from tests.support.servers.redis_server import redis_server
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import make_key
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.server.launcher import Route, make_config


@pytest.fixture(scope="session")
def deployed_on(tmp_path_factory):
    """Start the gateway of a route at the first call. Each lives until the session ends, because a
    module's tests take both routes in turn."""
    with ExitStack() as running_servers:

        @cache
        def deployed(route):
            backend = running_servers.enter_context(running(FakeBackend()))
            redis = running_servers.enter_context(redis_server())
            arguments = ["--model", "tiny", "--model", f"down=tiny@http://127.0.0.1:{free_port()}"]
            log = tmp_path_factory.mktemp("gateway") / "log"
            way = {"TOOLGATE_ROUTE": "litellm"} if route == "litellm" else {}
            gateway = serving(arguments, backend.url, log, redis.url, **way)
            return Deployed(running_servers.enter_context(gateway), backend, redis)

        yield deployed


@pytest.fixture(scope="session")
def route(request):
    """What answers chat completions: see `kit.BOTH_ROUTES`."""
    return str(getattr(request, "param", "own"))


@pytest.fixture(scope="session")
def deployed(route, deployed_on):
    return deployed_on(route)


@pytest.fixture(scope="session")
def redis_of_gateway(deployed):
    return deployed.redis


@pytest.fixture
def backend(deployed):
    """The gateway's backend without scripts and records of earlier tests."""
    deployed.backend.clear()
    deployed.backend.scripts["hi"] = Script(("Hello there",))
    return deployed.backend


@pytest.fixture
def gateway(deployed):
    """The gateway's base URL. If it ends during a test, that test fails with the end of its log."""
    yield deployed.gateway.url
    deployed.gateway.require_alive()


@pytest.fixture
def gateway_log(deployed):
    return deployed.gateway.log


@pytest.fixture
async def http(gateway):
    async with http_client(gateway, MASTER_KEY, timeout=60) as client:
        yield client


@pytest.fixture
async def client(gateway):
    async with openai_client(gateway, MASTER_KEY, timeout=60) as client:
        yield client


@pytest.fixture
async def key(gateway, redis_of_gateway, backend):
    """An ordinary key for `tiny`."""
    sent, _ = await make_key(redis_of_gateway.url, gateway, models=("tiny",), rpm=1000)
    return sent


@pytest.fixture
def spare_backend(backend_of_session):
    """A backend for gateways that a test starts itself, and for `configured`."""
    backend_of_session.clear()
    backend_of_session.scripts["hi"] = Script(("Hello there",))
    return backend_of_session


@pytest.fixture(scope="module")
def spare_redis():
    """A Redis server for gateways that a module starts itself."""
    with redis_server() as server:
        yield server


@pytest.fixture(scope="session")
def provider():
    with fake_provider.running(FakeProvider()) as provider:
        yield provider


def _with_others(rows, provider):
    """The deployments of `configured`. A model that has one of another provider, too, is on
    LiteLLM's route."""
    hosted = {"model": "openai/gpt-x", "api_base": provider.url, "api_key": "k"}
    gone = {"model": "hosted_vllm/tiny", "api_base": f"http://127.0.0.1:{free_port()}/v1"}
    gone["api_key"] = "os.environ/TOOLGATE_BACKEND_KEY"
    models = {
        "hosted": hosted,
        "foreign": gone,
        "keyless-gpt": {"model": "openai/gpt-y"},
        "keyless-claude": {"model": "anthropic/claude-y"},
    }
    for surface in ("chat_completions", "responses", "messages"):
        models |= {f"{surface}-whole": hosted, f"{surface}-stream": hosted}
    for row in rows:
        more = {"mixed": {"weight": 1}, "limited": {"rpm": 2}}
        row["litellm_params"] |= more.get(row["model_name"], {})
    listed = [("mixed", gone | {"weight": 0}), *models.items()]
    return rows + [{"model_name": name, "litellm_params": each} for name, each in listed]


@pytest.fixture(scope="session")
def configured(backend_of_session, provider, tmp_path_factory):
    """`tiny` is on our own route, `mixed` on LiteLLM's. `gone` and what `insured` breaks at fall
    back to another provider, `to-gone` to `tiny`. The models of the provider `hosted` respond, that
    of `foreign` does not."""
    folder = tmp_path_factory.mktemp("configured")
    shutil.copy(Path(__file__).with_name("recorder.py"), folder)
    down = f"http://127.0.0.1:{free_port()}"
    names = ("tiny", "mixed", "limited", "insured")
    routes = [Route(name, "tiny") for name in names]
    config = make_config([*routes, *(Route(name, "tiny", down) for name in ("gone", "to-gone"))])
    config["model_list"] = _with_others(config["model_list"], provider)
    config["litellm_settings"]["callbacks"] = ["recorder.recorder"]
    config["router_settings"] |= {
        "optional_pre_call_checks": ["enforce_model_rate_limits"],
        "fallbacks": [{"gone": ["hosted"]}, {"insured": ["hosted"]}, {"to-gone": ["tiny"]}],
    }
    path, log, records = folder / "config.yaml", folder / "log", folder / "records"
    path.write_text(yaml.safe_dump(config))
    arguments, url = ["--config", str(path)], backend_of_session.url
    with (
        redis_server() as redis,
        serving(arguments, url, log, redis.url, RECORDED=str(records)) as gateway,
    ):
        yield Configured(gateway, redis.url, records)


@pytest.fixture
async def team(configured, spare_backend):
    """A client of `configured`, without records of earlier tests."""
    configured.records.unlink(missing_ok=True)
    error = {"message": "It broke.", "type": "server_error", "code": "backend_failed"}
    spare_backend.scripts["breaks"] = Script(("x",), error_status=500, error=error)
    spare_backend.scripts["breaks midway"] = Script(("Hello there you",), error_after=3)
    async with http_client(configured.url, MASTER_KEY, timeout=60) as client:
        yield client
    configured.gateway.require_alive()
