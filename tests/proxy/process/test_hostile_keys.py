"""Attempts without a key, or with an ordinary key, to get more access; every attempt fails."""

import asyncio
import json
import socket
from functools import partial
from urllib.parse import urlsplit

import pytest

from tests.proxy.process.kit import BOTH_ROUTES, CHAT, HI, ROWS
from tests.support.effort import SAMPLE
from tests.support.servers.fake_backend import FakeBackend, running
from tests.support.servers.gateway_process import KEY_SECRET, MASTER_KEY
from tests.support.servers.http_client import bearer, http_client
from tests.support.servers.script import Script
from tests.support.servers.virtual_keys import HASHER
from toolgate_proxy.keys.key import new_key


def raw(url, *headers, path=CHAT):
    """Sends the bytes as they are; clients' libraries refuse to send some of these."""
    body = json.dumps(HI).encode()
    head = [b"POST " + path.encode() + b" HTTP/1.1", b"Host: x", *headers]
    head += [b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    return exchange(url, b"\r\n".join(head) + b"\r\nConnection: close\r\n\r\n" + body)


def exchange(url, message, *, hang_up=False):
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=20) as line:
        line.sendall(message)
        if hang_up:
            line.shutdown(socket.SHUT_WR)
        answer = b""
        while data := line.recv(65536):
            answer += data
    return answer


async def refused(url, *headers):
    answer = await asyncio.to_thread(raw, url, *headers)
    status = int(answer.split(b" ", 2)[1])
    assert status in (400, 401, 431), answer[:300]


@BOTH_ROUTES
async def test_invalid_keys_are_refused_and_not_logged(gateway, key, backend, gateway_log):
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


@BOTH_ROUTES
async def test_smuggled_headers_have_no_effect(gateway, key):
    sent = b"Authorization: Bearer " + key.encode()
    for header in map(str.encode, ROWS["smuggled headers"]):
        answer = await asyncio.to_thread(raw, gateway, sent, header)
        assert answer.startswith(b"HTTP/1.1 200"), (header, answer[:400])
        assert b"Hello there" in answer
        admin = await asyncio.to_thread(partial(raw, gateway, sent, header, path="/key/generate"))
        assert admin.startswith(b"HTTP/1.1 403"), (header, admin[:400])


async def test_conflicting_lengths_do_not_smuggle_a_request(gateway, key):
    """A request hidden in another's body: the inner one must not be answered."""
    inner = b"GET /key/list HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + MASTER_KEY.encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key.encode()
    for lengths in map(str.encode, ROWS["lengths"]):
        message = head + b"\r\n" + lengths + b"\r\n\r\n0\r\n\r\n" + inner + b"\r\n\r\n"

        answer = await asyncio.to_thread(exchange, gateway, message, hang_up=True)
        assert b"HTTP/1.1 200" not in answer, (lengths, answer[:200])


@pytest.mark.parametrize("path", ROWS["closed paths"])
async def test_ordinary_key_opens_no_toolgate_route(gateway, key, path):
    answer = await asyncio.to_thread(
        raw, gateway, b"Authorization: Bearer " + key.encode(), path=path
    )
    assert int(answer.split(b" ", 2)[1]) in (403, 404, 405), answer[:200]


@BOTH_ROUTES
async def test_responses_do_not_reveal_the_backend_address(gateway, key, backend):
    async with http_client(gateway, key, timeout=20) as http:
        for stream in (False, True):
            response = await http.post(CHAT, json=HI | {"stream": stream})
            told = str(response.headers) + response.text
            assert backend.url not in told
            assert str(urlsplit(backend.url).port) not in told
            assert "api-base" not in str(response.headers)
        down = await http.post(CHAT, json=HI | {"model": "down"})
        assert "127.0.0.1" not in down.text


@pytest.fixture(scope="module")
def elsewhere():
    """A backend that the gateway is not configured to use."""
    with running(FakeBackend()) as backend:
        backend.scripts["hi"] = Script(("forged",))
        yield backend


@BOTH_ROUTES
@pytest.mark.parametrize("master", [False, True])
async def test_no_field_redirects_or_forges_a_response(gateway, key, backend, elsewhere, master):
    """Refused, or answered by the backend that the operator named."""
    port = urlsplit(elsewhere.url).port
    headers = bearer(MASTER_KEY if master else key) | {"content-type": "application/json"}
    async with http_client(gateway, timeout=60, headers=headers) as http:
        for at, extra in enumerate(ROWS["steering"]):
            stream = bool((at + SAMPLE + master) % 2)
            text = json.dumps(HI | extra | {"stream": stream}).replace("{port}", str(port))
            before = len(backend.requests)
            response = await http.post(CHAT, content=text)
            assert "forged" not in response.text, extra
            reached = len(backend.requests) - before
            assert (response.status_code, reached) in ((200, 1), (400, 0), (403, 0)), extra
    assert not elsewhere.requests


@pytest.mark.parametrize(("path", "more"), ROWS["other paths"])
async def test_no_other_path_accepts_a_mock_response(gateway, key, path, more):
    async with http_client(gateway, key, timeout=20) as http:
        response = await http.post(path, json=HI | more | {"mock_response": "forged"})
    assert "forged" not in response.text
    assert response.status_code in (307, 400, 403, 404, 405), response.text
