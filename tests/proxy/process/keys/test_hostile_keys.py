"""Attempts without a key, or with an ordinary key, to get more access; every attempt fails."""

from __future__ import annotations

import asyncio
import json
import socket
from datetime import timedelta
from itertools import combinations
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from tests.support.litellm.routes import OWN_ROUTE_ONLY
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import KEY_SECRET, MASTER_KEY, serving
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.redis_server import RedisServer
from tests.support.servers.virtual_keys import HASHER, key_of, make_key, put
from toolgate_proxy.keys.key import new_key, now
from toolgate_proxy.keys.permissions import ROUTES

CHAT = "/v1/chat/completions"
CLOSED = (401, 403, 404, 405)
BODY = {"model": "tiny", "messages": [{"role": "user", "content": "hi"}]}


def raw(url: str, *headers: bytes, path: str = CHAT) -> bytes:
    """Sends the bytes as they are; clients' libraries refuse to send some of these."""
    body = json.dumps(BODY).encode()
    head = [b"POST " + path.encode() + b" HTTP/1.1", b"Host: x", *headers]
    head += [b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    return exchange(url, b"\r\n".join(head) + b"\r\nConnection: close\r\n\r\n" + body)


def exchange(url: str, message: bytes, *, hang_up: bool = False) -> bytes:
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=20) as line:
        line.sendall(message)
        if hang_up:
            line.shutdown(socket.SHUT_WR)
        answer = b""
        while data := line.recv(65536):
            answer += data
    return answer


async def refused(url: str, *headers: bytes) -> None:
    answer = await asyncio.to_thread(raw, url, *headers)
    status = int(answer.split(b" ", 2)[1])
    assert status in (400, 401, 431), answer[:300]


async def test_invalid_keys_are_refused_and_not_logged(
    gateway: str, key: str, backend: FakeBackend, gateway_log: Path
) -> None:
    before = len(backend.requests)
    tried = [
        key[:-1], key + "x", key[6:], key.swapcase(), new_key(), HASHER.hash(key), KEY_SECRET,
        MASTER_KEY[:-1], MASTER_KEY + " x", "null", "None", "true", "0", "''", "{}", "*", "admin",
        "litellm_proxy_master_key", "' OR '1'='1", "toolgate:{keys}:records", "sk-tg-" + "A" * 43,
        "x" * 20_000, "../../etc/passwd", "%00", "$(id)",
    ]  # fmt: skip
    for each in tried:
        await refused(gateway, b"Authorization: Bearer " + each.encode())
    for odd in ("ключ".encode(), b"\xff\xfe\x80", key.encode() + b"\xc3\xa9", b"", b"Bearer"):
        await refused(gateway, b"Authorization: Bearer " + odd)
    for scheme in (b"Basic ", b"", b"bearer: "):
        await refused(gateway, b"Authorization: " + scheme + b"wrong")
    await refused(gateway)
    assert len(backend.requests) == before
    log = gateway_log.read_text(errors="replace")
    for secret in (key, HASHER.hash(key), MASTER_KEY[:-1], KEY_SECRET, "ключ", "A" * 43, "x" * 99):
        assert secret not in log
    assert raw(gateway, b"Authorization: Bearer " + key.encode()).startswith(b"HTTP/1.1 200")


async def test_expired_blocked_and_revoked_keys_return_401(
    gateway: str, redis_of_gateway: RedisServer, key: str
) -> None:
    expired, blocked, revoked = new_key(), new_key(), new_key()
    await put(redis_of_gateway.url, key_of(expired, expires=now() - timedelta(seconds=1)))
    await put(redis_of_gateway.url, key_of(blocked, blocked=True))
    old = key_of(revoked)
    await put(redis_of_gateway.url, old.model_copy(update={"revoked": now()}))
    await make_key(redis_of_gateway.url, gateway)  # the gateway knows all that was put before
    async with http_client(gateway, timeout=20) as http:
        for sent, word in ((expired, "expired"), (blocked, "blocked"), (revoked, "revoked")):
            response = await http.post(CHAT, json=BODY, headers=bearer(sent))
            assert response.status_code == 401
            assert word in response.json()["error"]["message"]
            assert sent not in response.text


async def test_guessed_keys_are_limited_and_valid_keys_are_not(
    spare_backend: FakeBackend, spare_redis: RedisServer, tmp_path: Path
) -> None:
    key = new_key()
    await put(spare_redis.url, key_of(key))
    with serving(
        ["--model", "tiny"],
        spare_backend.url,
        tmp_path / "log",
        spare_redis.url,
        TOOLGATE_WRONG_KEYS_PER_MINUTE="3",
    ) as gateway:
        async with http_client(gateway.url, timeout=20) as http:
            guesses = [await http.get("/v1/models", headers=bearer(new_key())) for _ in range(5)]
            assert [each.status_code for each in guesses] == [401, 401, 401, 429, 429]
            assert int(guesses[-1].headers["retry-after"]) >= 1
            assert guesses[-1].json()["error"]["code"] == "too_many_wrong_keys"
            assert (await http.get("/v1/models", headers=bearer(key))).status_code == 200


@pytest.mark.parametrize("scheme", [b"bearer", b"BEARER", b"Bearer", b"bEaReR "])
async def test_key_scheme_is_case_insensitive(gateway: str, key: str, scheme: bytes) -> None:
    """On both routes, for models and for the list of models; two spellings are one key."""
    headers = [b"Authorization: " + scheme + b" " + key.encode(), b"x-api-key: " + key.encode()]
    assert raw(gateway, headers[0]).startswith(b"HTTP/1.1 200")
    assert raw(gateway, *headers).startswith(b"HTTP/1.1 200")
    listed = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + headers[0] + b"\r\nConnection: close"
    answer = await asyncio.to_thread(exchange, gateway, listed + b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 200"), answer[:200]
    await refused(gateway, b"Authorization: " + scheme + b" wrong")


async def test_the_first_key_of_litellms_order_decides(
    gateway: str, key: str, gateway_log: Path
) -> None:
    """A valid key in another header gives no access, and a wrong one takes none."""
    names = (b"x-litellm-api-key", b"Authorization", b"api-key", b"x-api-key", b"x-goog-api-key")
    for first, second in combinations(names, 2):
        for given, status in ((key.encode(), b"200"), (b"a-wrong-key", b"401")):
            other = b"a-wrong-key" if given == key.encode() else MASTER_KEY.encode()
            headers = first + b": Bearer " + given, second + b": Bearer " + other
            answer = await asyncio.to_thread(raw, gateway, *headers)
            assert answer.startswith(b"HTTP/1.1 " + status), (headers, answer[:200])
    assert "a-wrong-key" not in gateway_log.read_text()


async def test_a_header_with_two_keys_returns_401(gateway: str, key: str) -> None:
    for other in (b"wrong", MASTER_KEY.encode()):
        headers = b"Authorization: Bearer " + key.encode(), b"Authorization: Bearer " + other
        answer = await asyncio.to_thread(raw, gateway, *headers)
        assert answer.startswith(b"HTTP/1.1 401"), answer[:200]


SMUGGLED = [
    b"X-Forwarded-Prefix: /key",
    b"X-Original-URL: /key/list",
    b"X-Rewrite-URL: /key/list",
    b"X-HTTP-Method-Override: GET",
    b"X-Forwarded-For: 127.0.0.1, 10.0.0.1",
    b"x-litellm-timeout: 0.000001",
    b"x-litellm-stream-timeout: 0.000001",
    b"x-litellm-num-retries: 50",
    b"x-litellm-tags: free",
    b"x-litellm-spend-logs-metadata: {",
    b"x-litellm-agent-id: admin",
    b"x-litellm-customer-id: someone",
    b"X-Toolgate-Master: true",
]


@pytest.mark.parametrize("header", SMUGGLED)
async def test_smuggled_headers_have_no_effect(gateway: str, key: str, header: bytes) -> None:
    answer = await asyncio.to_thread(raw, gateway, b"Authorization: Bearer " + key.encode(), header)
    assert answer.startswith(b"HTTP/1.1 200"), answer[:400]
    assert b"Hello there" in answer
    admin = await asyncio.to_thread(
        lambda: raw(gateway, b"Authorization: Bearer " + key.encode(), header, path="/key/generate")
    )
    assert admin.startswith(b"HTTP/1.1 403"), admin[:400]


async def test_conflicting_lengths_do_not_smuggle_a_request(gateway: str, key: str) -> None:
    """A request hidden in another's body: the inner one must not be answered."""
    inner = b"GET /key/list HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + MASTER_KEY.encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key.encode()
    for lengths in (
        b"Content-Length: 4\r\nTransfer-Encoding: chunked",
        b"Content-Length: 4\r\nContent-Length: 400",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Content-Length: 4\r\nTransfer-Encoding: xchunked",
        b"Content-Length: 4\r\nTransfer-Encoding : chunked",
        b"Content-Length: 4\r\nTransfer-Encoding:\tchunked",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding: identity, chunked\r\nContent-Length: 4",
        b"Content-Length: +4",
        b"Content-Length: 0x4",
        b"Content-Length: 4, 400",
        b"Content-Length: 4\n Transfer-Encoding: chunked",
        b"X: y\rTransfer-Encoding: chunked",
        b"X: y\x00\r\nContent-Length: 4",
    ):
        message = head + b"\r\n" + lengths + b"\r\n\r\n0\r\n\r\n" + inner + b"\r\n\r\n"

        answer = await asyncio.to_thread(exchange, gateway, message, hang_up=True)
        assert b"HTTP/1.1 200" not in answer, (lengths, answer[:200])


@OWN_ROUTE_ONLY
async def test_ordinary_key_opens_no_admin_route(
    gateway: str, key: str, http: httpx.AsyncClient
) -> None:
    """Every route that LiteLLM and we have, by every method: an ordinary key opens what is open to
    everyone, and nothing more."""
    paths = (await http.get("/openapi.json")).json()["paths"]
    assert len(paths) > 200
    opened: list[str] = []
    async with (
        http_client(gateway, timeout=30, headers=bearer(key)) as ordinary,
        http_client(gateway, timeout=30) as stranger,
    ):
        for template, methods in paths.items():
            path = template.replace("{", "").replace("}", "").replace(":path", "")
            for method in sorted(set(methods) & {"get", "post", "put", "patch", "delete"}):
                allowed = ROUTES.get(method.upper())
                if allowed is not None and allowed.fullmatch(path):
                    continue
                body = {} if method != "get" else None
                status = (await ordinary.request(method, path, json=body)).status_code
                if status not in CLOSED:
                    anyone = (await stranger.request(method, path, json=body)).status_code
                    if anyone != status:
                        opened.append(f"{method} {template} {status}, without a key {anyone}")
    assert not opened, opened


@OWN_ROUTE_ONLY
@pytest.mark.parametrize(
    "path",
    ["/toolgate/metrics", "/toolgate/prewarm", "//v1/models", "/v1/models/../../key/list",
     "/v1/models/%2e%2e/%2e%2e/key/list", "/V1/KEY/LIST", "/v1/models;/key/list"],
)  # fmt: skip
async def test_ordinary_key_opens_no_toolgate_route(gateway: str, key: str, path: str) -> None:
    answer = await asyncio.to_thread(
        raw, gateway, b"Authorization: Bearer " + key.encode(), path=path
    )
    assert int(answer.split(b" ", 2)[1]) in (403, 404, 405), answer[:200]


async def test_responses_do_not_reveal_the_backend_address(
    gateway: str, key: str, backend: FakeBackend
) -> None:
    async with http_client(gateway, timeout=20, headers=bearer(key)) as http:
        for stream in (False, True):
            response = await http.post(CHAT, json=BODY | {"stream": stream})
            told = str(response.headers) + response.text
            assert backend.url not in told
            assert str(urlsplit(backend.url).port) not in told
            assert "api-base" not in str(response.headers)
        down = await http.post(CHAT, json=BODY | {"model": "down"})
        assert "127.0.0.1" not in down.text
