"""Fixtures for the whole stack: the gateway's URL and clients, the backend, the requests' defaults.

`make test` has one vLLM server, `first`, and the gateway before it; modules have both adapters, and
both ways of a request, where `kit.both_adapters` and `kit.both_ways` mark them. Tests run in the
order in which the servers that they need start; those that kill servers run last.
"""

from pathlib import Path

import pytest

from tests.models import tiny_model
from tests.support.servers.http_client import sync_client
from toolgate_proxy.ops.demo.model import closers

from .servers import ORDER, Servers, adapters

HERE = Path(__file__).parent
FIRST = ("test_images", "test_prefill_decode", "test_parallel")
"""Have servers of their own, which have ended when the others start."""
LAST = "test_faults"
"""Stops and kills servers."""


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    ours = [index for index, item in enumerate(items) if item.path.is_relative_to(HERE)]
    ordered = sorted((items[index] for index in ours), key=_position)
    for index, item in zip(ours, ordered, strict=True):
        items[index] = item


def _position(item):
    if item.path.stem in FIRST:
        return FIRST.index(item.path.stem) - len(FIRST) - 1
    if item.path.stem == LAST:
        return len(ORDER)
    return max((ORDER.index(name) for name in needs(item)), default=-1)


def needs(item):
    """Return the servers that a test needs beside the stack."""
    fixtures = getattr(item, "fixturenames", ())
    callspec = getattr(item, "callspec", None)
    parameters = callspec.params if callspec is not None else {}
    found = {name for name in ORDER if name in fixtures}
    if parameters.get("way") == "litellm":
        found.add("litellm_gateway")
    if parameters.get("adapter", adapters()[0]) != adapters()[0]:
        found.add("second")
        if parameters.get("way") != "litellm":
            found.add("impatient_gateway")
    return found


@pytest.fixture(scope="package")
def servers(request, tmp_path_factory):
    items = [item for item in request.session.items if item.path.is_relative_to(HERE)]
    wanted = {name for item in items for name in needs(item)}
    with Servers(wanted, tmp_path_factory.mktemp("servers")) as running:
        yield running


@pytest.fixture(autouse=True)
def _alive(request):
    """Fail the test in which a server ended by itself, with the end of that server's log."""
    yield
    if "servers" in request.fixturenames:
        request.getfixturevalue("servers").check()


@pytest.fixture(scope="package")
def stack(servers):
    return servers.stack


@pytest.fixture(scope="package")
def second(servers):
    """The backend on the second adapter, with a LoRA adapter."""
    return servers.backend("second")


@pytest.fixture(scope="package")
def two_ranks(servers):
    """The backend on two tensor-parallel ranks, on the first adapter."""
    return servers.backend("two_ranks")


@pytest.fixture
def way():
    return "own"


@pytest.fixture
def adapter():
    return adapters()[0]


@pytest.fixture
def model(adapter):
    """The model whose backend has this adapter, as the gateways name it."""
    return "tiny" if adapter == adapters()[0] else "second"


@pytest.fixture
def gateway(servers, way, model):
    if way == "litellm":
        return servers.gateway("litellm_gateway", model)
    return servers.gateway("stack" if model == "tiny" else "impatient_gateway", model)


@pytest.fixture
def impatient_gateway(servers, model):
    """A gateway with short time-outs before the backends of all other tests."""
    return servers.gateway("impatient_gateway", model)


@pytest.fixture
def http(gateway):
    with sync_client(gateway.url, gateway.key, timeout=300) as http:
        yield http


@pytest.fixture
def target(servers, model):
    """The backend that answers `model`."""
    return servers.backend("first" if model == "tiny" else "second")


@pytest.fixture
def backend(target):
    """A client of the backend's own routes."""
    with target.client("/v1/toolgate") as client:
        yield client


@pytest.fixture(scope="session")
def bias():
    """logit_bias that makes the random model end strings, objects and turns."""
    return closers(tiny_model())


@pytest.fixture
def common(bias, model):
    return {"model": model, "max_tokens": 400, "temperature": 1.0, "seed": 11, "logit_bias": bias}
