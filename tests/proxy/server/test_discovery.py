"""Addresses of a name, found by DNS: replicas come and go without a restart of the gateway, on our
own route and in LiteLLM's provider."""

import asyncio
import datetime
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import aiohttp.connector
import litellm
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.proxy.server.kit import ask
from tests.support.litellm.router import row, use
from tests.support.servers.fake_backend import KEY, FakeBackend, running
from tests.support.servers.loopback import in_thread
from tests.support.servers.script import Script
from tests.support.waiting import until
from toolgate_core.errors import BackendUnavailable
from toolgate_proxy import discovery
from toolgate_proxy.backend_client.client import Backend
from toolgate_proxy.discovery import addressed, without_password
from toolgate_proxy.litellm_host.litellm_route import provider
from toolgate_proxy.litellm_host.routing import router
from toolgate_proxy.litellm_host.routing.selection import Selection
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_proxy.routing.health import Health
from toolgate_proxy.routing.prefix_affinity import PrefixAffinity
from toolgate_proxy.settings import Settings

NAME = "engines.test"
LONG = "You are a careful assistant. " * 60


class Dns:
    """What the operating system finds for NAME; None: nothing."""

    def __init__(self) -> None:
        self.addresses: list[str] | None = []
        self.asked = 0

    async def getaddrinfo(
        self, loop: Any, host: str, port: int, *, type: int = 0, **_: Any
    ) -> list[Any]:
        if host != NAME:
            found = await asyncio.to_thread(socket.getaddrinfo, host, port, type=type)
            return [*found]
        self.asked += 1
        if not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET6 if ":" in each else socket.AF_INET, type, 6, "", (each, port))
            for each in self.addresses
        ]


@pytest.fixture
def dns(monkeypatch: pytest.MonkeyPatch) -> Dns:
    made = Dns()

    async def getaddrinfo(loop: Any, host: str, port: int, **more: Any) -> list[Any]:
        return await made.getaddrinfo(loop, host, port, **more)

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(discovery, "INTERVAL", 0.02)
    return made


class Engines:
    """Replicas at addresses of the loopback interface, on one port."""

    def __init__(self) -> None:
        self.port = free_port()
        self.all: dict[str, FakeBackend] = {}
        self._running: dict[str, ExitStack] = {}

    def start(self, host: str) -> None:
        made = self.all.setdefault(host, FakeBackend())
        made.scripts |= {
            "hi": Script(("Hello there",)),
            "slow": Script(("Hello there, my friend",), pause=0.1),
        }
        self._running[host] = ExitStack()
        self._running[host].enter_context(running(made, self.port, host))

    def stop(self, host: str) -> None:
        if host in self._running:
            self._running.pop(host).close()

    @property
    def url(self) -> str:
        return f"dns+http://{NAME}:{self.port}"

    @property
    def counts(self) -> list[int]:
        return [len(each.requests) for each in self.all.values()]


A, B, C = "127.0.0.2", "127.0.0.3", "127.0.0.4"


@pytest.fixture
def engines(dns: Dns) -> Iterator[Engines]:
    """Two, whose addresses the name has."""
    made = Engines()
    for host in (A, B):
        made.start(host)
    dns.addresses = [A, B]
    yield made
    for host in (A, B, C):
        made.stop(host)


def hosts() -> list[str]:
    return [str(place.api_base).rpartition("#")[2] for place in router.placements("tiny")]


async def found(*expected: str) -> None:
    """The name has these addresses."""
    await until(lambda: hosts() == [*expected])


@pytest.fixture
async def gateway(gateway, engines, monkeypatch):
    """Its model is at the name."""
    use(monkeypatch, row("a", api_key=KEY, api_base=engines.url))
    await found(A, B)
    return gateway


@pytest.fixture
def health(gateway):
    return Health(gateway.here.deployments, lambda: router.placements(None))


async def said(gateway: Any, times: int = 1, **params: Any) -> set[int]:
    """The statuses of requests."""
    replies = [await ask(gateway, "chat", said="hi", **params) for _ in range(times)]
    return {each.status for each in replies}


async def test_each_address_of_a_name_is_a_deployment(gateway, engines, health):
    await health.probe_all()
    assert await said(gateway, 24) == {200}
    assert all(engines.counts)
    for each in engines.all.values():
        assert each.headers[0]["host"] == f"{NAME}:{engines.port}"
    states = [gateway.here.deployments.at(place).state for place in router.placements("tiny")]
    assert [state.url for state in states] == [f"{engines.url}#{host}" for host in (A, B)]
    assert all(state.has_responded for state in states)


async def test_a_conversation_stays_at_one_address(gateway, engines):
    history = [{"role": "system", "content": LONG}, {"role": "user", "content": "hi"}]
    for _ in range(6):
        assert await said(gateway, history=history) == {200}
    assert sorted(engines.counts) == [0, 6]


async def test_addresses_come_and_go(gateway, engines, dns, health):
    engines.start(C)
    dns.addresses = [C, A]
    await found(A, C)
    await asyncio.sleep(1.1)  # a route is decided once a second
    before = engines.counts
    assert await said(gateway, 24) == {200}
    used = [now - then for now, then in zip(engines.counts, [*before, 0], strict=False)]
    assert used[1] == 0
    assert used[0]
    assert used[2]


async def test_a_replica_that_is_lost_is_replaced_before_dns_forgets_it(gateway, engines, health):
    await health.probe_all()
    engines.stop(A)
    assert await said(gateway, 12) == {200}
    await health.probe_all()
    states = [gateway.here.deployments.at(place).state.up for place in router.placements("tiny")]
    assert states == [False, True]
    assert gateway.here.deployments.discovery.replicas(engines.url)


async def test_a_stream_goes_on_at_an_address_that_the_name_has_no_longer(
    gateway, engines, dns, health
):
    dns.addresses = [A]
    await found(A)
    await asyncio.sleep(1.1)
    kept = gateway.here.deployments._deployments
    asking = asyncio.create_task(ask(gateway, "chat", said="slow", stream=True))
    await until(lambda: engines.all[A].running)
    dns.addresses = [B]
    await found(B)
    await health.probe_all()
    assert any(url.endswith(A) for url, *_ in kept)
    assert (await asking).text == "Hello there, my friend"
    await health.probe_all()
    assert not any(url.endswith(A) for url, *_ in kept), "its connections are closed"
    assert not engines.all[A].left


async def test_the_last_addresses_stay_in_use_while_dns_fails(gateway, engines, dns, caplog):
    dns.addresses = None
    asked = dns.asked
    await until(lambda: hosts() and dns.asked > asked + 3)
    assert hosts() == [A, B]
    assert await said(gateway, 4) == {200}
    assert caplog.text.count("cannot be resolved") == 1
    dns.addresses = [B]
    await found(B)


async def test_a_name_that_was_never_resolved_is_an_unavailable_backend(gateway, dns, monkeypatch):
    dns.addresses = None
    use(monkeypatch, row("a", api_key=KEY, api_base="dns+http://nowhere.invalid:1"))
    await asyncio.sleep(1.1)
    reply = await ask(gateway, "chat", said="hi")
    assert reply.failure == (503, "backend_unavailable")


async def test_addresses_of_ipv6_are_used_if_there_are_no_others(gateway, dns):
    dns.addresses = ["fd00::2", A, "fd00::1"]
    await found(A)
    dns.addresses = ["fd00::2", "fd00::1", "fd00::2"]
    await found("fd00::1", "fd00::2")


async def test_replicas_share_the_limit_and_the_weight_of_their_deployment(
    gateway, engines, monkeypatch
):
    given = row("a", api_key=KEY, api_base=engines.url, weight=4, max_parallel_requests=1)
    use(monkeypatch, given)
    rows = router.rows_of("tiny")
    assert [each["litellm_params"]["weight"] for each in rows] == [2, 2]
    assert {router.id_of(each) for each in rows} == {router.id_of(given)}
    await asyncio.sleep(1.1)
    replies = await asyncio.gather(*(ask(gateway, "chat", said="slow") for _ in range(3)))
    assert sorted(each.status for each in replies) == [200, 429, 429]
    engines.stop(A)
    assert await said(gateway, 8) == {200}, "the slot moves with the request"


async def test_a_deployment_that_litellm_selects_is_served_by_its_replicas(
    gateway, engines, monkeypatch
):
    use(monkeypatch, row("a", api_key=KEY, api_base=engines.url, rpm=1000))
    await asyncio.sleep(1.1)
    assert await said(gateway, 24) == {200}
    assert all(engines.counts)


async def test_litellms_provider_serves_a_name(gateway, engines, monkeypatch):
    here = gateway.here
    selected = Selection(here.deployments, PrefixAffinity(here.deployments))
    monkeypatch.setattr(provider, "gateway", lambda: here)
    monkeypatch.setattr(provider, "selection", lambda: selected)
    messages = [{"role": "user", "content": "hi"}]
    for at in range(24):
        answer = await litellm.acompletion(
            model="toolgate/tiny", messages=messages, api_base=engines.url, api_key=KEY
        )
        assert answer.choices[0].message.content == "Hello there"
        if at == 0:
            await until(lambda: len(here.deployments.discovery.replicas(engines.url)) == 2)
    assert all(engines.counts)


@pytest.mark.parametrize(
    ("url", "http", "address"),
    [
        ("http://a:1#x", "http://a:1#x", None),
        ("dns+http://a:1", "http://a:1", None),
        ("dns+https://a/v1#10.0.0.1", "https://a/v1", "10.0.0.1"),
        ("dns+http://a:1#fd00::1", "http://a:1", "fd00::1"),
    ],
)
def test_the_url_of_a_replica_has_its_address(url, http, address):
    assert addressed(url) == (http, address)


def test_passwords_are_not_displayed():
    assert without_password("dns+http://me:secret@a:1#10.0.0.1") == "dns+http://a:1#10.0.0.1"


# --- TLS ---


def certificate(name: str) -> tuple[bytes, bytes]:
    """A certificate that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return made.public_bytes(serialization.Encoding.PEM), secret


async def test_tls_verifies_the_name_at_the_address(tmp_path, monkeypatch):
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    for path, content in zip((cert, key), certificate(NAME), strict=True):
        path.write_bytes(content)
    trusting = ssl.create_default_context(cafile=str(cert))
    monkeypatch.setattr(aiohttp.connector, "_SSL_CONTEXT_VERIFIED", trusting)
    options = {"ssl_certfile": str(cert), "ssl_keyfile": str(key)}
    with in_thread(FakeBackend().app(), 0, A, **options) as url:
        port = url.rpartition(":")[2]
        for name, valid in ((NAME, True), ("other.test", False)):
            backend = Backend(
                f"dns+https://{name}:{port}#{A}", Settings(backend_key=KEY).backend_key, Settings()
            )
            if valid:
                assert (await backend.info()).model == "tiny"
            else:
                with pytest.raises(BackendUnavailable):
                    await backend.info()
            await backend.aclose()
