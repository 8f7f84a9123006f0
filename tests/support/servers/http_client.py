"""Clients of servers that speak plain HTTP.

By default each new client reads all certificate authorities, which takes 50 ms of CPU time.
"""

import ssl
from typing import Any

import httpx
import openai

_NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def http_client(base_url: str, key: str = "", **options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(**_local(base_url, key, options))


def sync_client(base_url: str, key: str = "", **options: Any) -> httpx.Client:
    return httpx.Client(**_local(base_url, key, options))


def _local(base_url: str, key: str, options: dict[str, Any]) -> dict[str, Any]:
    """Options of a client that sends the key, if there is one, and knows no proxy."""
    headers = (bearer(key) if key else {}) | options.pop("headers", {})
    known = {"base_url": base_url, "headers": headers, "trust_env": False}
    return {**known, "verify": _NO_AUTHORITIES, **options}


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def openai_client(gateway_url: str, key: str, timeout: float = 30) -> openai.AsyncOpenAI:
    """OpenAI's SDK without retries."""
    return openai.AsyncOpenAI(
        base_url=f"{gateway_url}/v1",
        api_key=key,
        max_retries=0,
        timeout=timeout,
        http_client=openai.DefaultAsyncHttpxClient(verify=_NO_AUTHORITIES),
    )
