"""The metrics token opens the metrics and nothing else."""

from __future__ import annotations

import httpx
import pytest
from pydantic import SecretStr
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from toolgate_proxy.server import request_scope

TOKEN = SecretStr("scrape-token-of-the-tests")


async def get(path: str, *, token: SecretStr | None, sent: str, method: str = "GET") -> str:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        found = request_scope.scraped(scope, token)
        await (found or PlainTextResponse("passed on"))(scope, receive, send)

    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
        return (await http.request(method, path, headers={"authorization": sent})).text


@pytest.mark.parametrize("path", ["/metrics", "/toolgate/metrics"])
async def test_the_token_opens_the_metrics(path: str) -> None:
    text = await get(path, token=TOKEN, sent=f"Bearer {TOKEN.get_secret_value()}")
    assert "# TYPE toolgate_requests_total counter" in text


@pytest.mark.parametrize(
    ("path", "token", "sent", "method"),
    [
        ("/metrics", TOKEN, "Bearer another", "GET"),
        ("/metrics", TOKEN, "Bearer ", "GET"),
        ("/metrics", TOKEN, f"Basic {TOKEN.get_secret_value()}", "GET"),
        ("/metrics", TOKEN, f"Bearer {TOKEN.get_secret_value()}", "POST"),
        ("/toolgate/status", TOKEN, f"Bearer {TOKEN.get_secret_value()}", "GET"),
        ("/v1/chat/completions", TOKEN, f"Bearer {TOKEN.get_secret_value()}", "GET"),
        ("/metrics", None, "Bearer ", "GET"),
    ],
)
async def test_all_else_is_passed_on(
    path: str, token: SecretStr | None, sent: str, method: str
) -> None:
    assert await get(path, token=token, sent=sent, method=method) == "passed on"
