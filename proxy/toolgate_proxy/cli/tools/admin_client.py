"""Client of a running gateway's `/toolgate/*` routes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import SecretStr

from ...stack.extras import MissingExtra, check_package

TIMEOUT = 600.0
"""Seconds for all tools: compiling one may take seconds."""


class AdminRequestFailed(Exception):
    """The tools could not be read, or the gateway could not be asked."""


def check_client() -> None:
    """Raises AdminRequestFailed if the HTTP client is not installed."""
    try:
        check_package("A request to a gateway", "httpx")
    except MissingExtra as error:
        raise AdminRequestFailed(str(error)) from error


def send(
    url: str,
    key: SecretStr,
    tools: Sequence[object],
    model: str | None,
    route: str = "prewarm",
    instances: Sequence[object] = (),
) -> list[Any]:
    """The gateway's report for each backend. Raises AdminRequestFailed."""
    body = {"tools": tools}
    body |= {"model": model} if model else {}
    body |= {"instances": instances} if instances else {}
    backends: list[Any] = _request(url, key, route, body)["backends"]
    return backends


def get(url: str, key: SecretStr, route: str) -> dict[str, Any]:
    """The response of `GET /toolgate/<route>`. Raises AdminRequestFailed."""
    return _request(url, key, route, None)


def _request(url: str, key: SecretStr, route: str, content: object) -> dict[str, Any]:
    """`content`: the body of a POST request; None for GET."""
    check_client()
    import httpx

    try:
        response = httpx.request(
            "GET" if content is None else "POST",
            f"{url.rstrip('/')}/toolgate/{route}",
            json=content,
            headers={"Authorization": f"Bearer {key.get_secret_value()}"},
            timeout=TIMEOUT,
            trust_env=False,
        )
        body = response.json()
    except (httpx.HTTPError, ValueError) as error:
        raise AdminRequestFailed(
            f"The request to the gateway at {url} failed: {error}. Check --url, and that the "
            "gateway is running."
        ) from error
    if response.is_success and isinstance(body, dict):
        return body
    refusal = body.get("error") if isinstance(body, dict) else None
    message = refusal.get("message") if isinstance(refusal, dict) else None
    raise AdminRequestFailed(
        message or f"The gateway at {url} responded with HTTP status {response.status_code}."
    )


def lines(backends: Iterable[Any]) -> tuple[list[str], bool]:
    """The report as text, and whether all tools are ready at all backends."""
    text: list[str] = []
    all_ready = True
    for backend in backends:
        text.append(backend["backend"])
        for tool in backend["tools"]:
            ready = tool["status"] == "ready"
            all_ready &= ready
            details = [tool.get("tier"), tool.get("engine")] if ready else [tool.get("reason")]
            if ready and "compile_ms" in tool:
                details.append(f"{tool['compile_ms']:.1f} ms")
            about = ", ".join(detail for detail in details if detail)
            text.append(f"  {tool['name']}: {tool['status']}" + (f" ({about})" if about else ""))
    return text, all_ready
