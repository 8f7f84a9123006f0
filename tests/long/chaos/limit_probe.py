"""A client that sends more requests than its key allows, and how many of them passed."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from tests.long.chaos.fleet import MODEL
from tests.support.apis.replies import PATHS
from toolgate_verify.terms import Api

PER_MINUTE = 60
"""The limit of the key."""
PAUSE = 0.5
"""Seconds between two requests: twice as many as the limit."""
WINDOW = 60.0
TOLERANCE = 0.01


@dataclass
class LimitProbe:
    urls: Sequence[str]
    key: str
    passed: list[tuple[float, float]] = field(default_factory=list)
    """When requests that were admitted began and ended."""
    limited: int = 0
    failed: int = 0

    async def run(self, ended: asyncio.Event) -> None:
        async with httpx.AsyncClient(timeout=60, trust_env=False) as http:
            for turn in itertools.count():
                if ended.is_set():
                    return
                await self._ask(http, self.urls[turn % len(self.urls)])
                await asyncio.sleep(PAUSE)

    async def _ask(self, http: httpx.AsyncClient, url: str) -> None:
        message = {"role": "user", "content": "Go on."}
        body = {"model": MODEL, "messages": [message], "max_tokens": 1, "reasoning_effort": "none"}
        began = time.monotonic()
        try:
            headers = {"authorization": f"Bearer {self.key}"}
            response = await http.post(url + PATHS[Api.CHAT], json=body, headers=headers)
        except httpx.TransportError:
            self.failed += 1
            return
        if response.status_code == 200:
            self.passed.append((began, time.monotonic()))
        elif response.status_code == 429:
            self.limited += 1
        else:
            self.failed += 1

    def report(self) -> tuple[str, list[str]]:
        """A sentence, and what is wrong."""
        most = most_within(self.passed, WINDOW)
        text = (
            f"Key with {PER_MINUTE} requests per minute: {len(self.passed):,} passed, "
            f"{self.limited:,} got a 429, {self.failed:,} failed. Most in any minute: {most}."
        )
        allowed = PER_MINUTE * (1 + TOLERANCE)
        return text, [f"{most} requests passed within a minute"] if most > allowed else []


def most_within(passed: Sequence[tuple[float, float]], seconds: float) -> int:
    """The most requests whose beginning and end, and so their admission, are within `seconds`.
    `passed` is in the order of the beginnings, and the requests do not overlap."""
    most = first = 0
    for last, (_, end) in enumerate(passed):
        while end - passed[first][0] > seconds:
            first += 1
        most = max(most, last - first + 1)
    return most
