"""Clients of servers that speak plain HTTP.

By default each new client reads all certificate authorities, which takes 50 ms of CPU time.
"""

import ssl
from typing import Any

import httpx
import openai

_NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


def http_client(base_url: str, **options: Any) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=base_url, verify=_NO_AUTHORITIES, **options)


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
