"""Sends the requests of scenarios."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

import httpx

from ..exchange import Exchange, Request
from ..scenario import Scenario
from .target import Target

SCENARIO = "toolgate_verify_scenario"
"""Extension of httpx with the name of the scenario, for transports. It is never sent."""


class BudgetSpent(Exception):
    """The run has sent as many requests as it may."""


@dataclass
class Client:
    target: Target
    http: httpx.AsyncClient
    concurrency: int = 8
    max_requests: int | None = None
    timeout: float = 120.0
    """Seconds for one request."""
    sent: int = 0
    _slots: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.concurrency)

    async def send(self, scenario: Scenario, request: Request, *, at_once: bool) -> Exchange:
        """Send one request. `at_once` ignores the limit of concurrent requests. Raise
        BudgetSpent."""
        if at_once:
            return await self._send(scenario, request)
        async with self._slots:
            return await self._send(scenario, request)

    async def _send(self, scenario: Scenario, request: Request) -> Exchange:
        if self.max_requests is not None and self.sent >= self.max_requests:
            raise BudgetSpent
        self.sent += 1
        request = self.target.prepared(request, scenario.api)
        exchange = Exchange(request)
        began = time.monotonic()
        try:
            async with asyncio.timeout(self.timeout):
                await self._exchange(scenario, exchange)
        except TimeoutError:
            exchange.problem = f"no complete answer within {self.timeout:g} s"
        except httpx.HTTPError as error:
            exchange.problem = f"{type(error).__name__}: {error}".rstrip(": ")
        exchange.seconds = time.monotonic() - began
        return exchange

    async def _exchange(self, scenario: Scenario, exchange: Exchange) -> None:
        request = exchange.request
        headers = self.target.headers(request, scenario.api)
        content = request.content.encode("utf-8", "surrogatepass")
        if content:
            headers["content-type"] = "application/json"
        async with self.http.stream(
            request.method,
            f"{self.target.url}{request.path}",
            content=content or None,
            headers=headers,
            timeout=httpx.Timeout(self.timeout, connect=15.0),
            extensions={SCENARIO: scenario.name},
        ) as response:
            exchange.status = response.status_code
            exchange.headers = {name.lower(): value for name, value in response.headers.items()}
            data = bytearray()
            async for part in response.aiter_bytes():
                data += part
                leave = request.leave_after
                if leave is not None and data.count(b"\n\n") >= leave:
                    break
            exchange.text = data.decode("utf-8", "replace")
