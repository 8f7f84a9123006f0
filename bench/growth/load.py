"""Streams of one backend, enforced or free, with the arrival times of their tokens.

"Free" is the same request without enforcement: same prompt, same server, end of turn ignored. Tools
are only in the enforcement and not in the prompt, so that the prefill stays the same.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import httpx

from bench.support.backend_client import GENERATE_PATH, BackendClient, stream_events
from toolgate_core import wire

TEXT = "Go on."


@dataclass(frozen=True)
class Stream:
    """The arrival times of one response."""

    arrivals: list[tuple[float, int]]
    """Seconds since the request, and the tokens received by then."""

    @property
    def first_ms(self) -> float:
        return self.arrivals[0][0] * 1e3

    @property
    def seconds(self) -> float:
        return self.arrivals[-1][0]

    @property
    def tokens(self) -> int:
        return self.arrivals[-1][1]

    def until(self, tokens: int) -> float:
        """Milliseconds until `tokens` tokens had arrived."""
        return next(1e3 * seconds for seconds, count in self.arrivals if count >= tokens)

    def slices(self, start: int, stop: int, size: int) -> list[float]:
        """Milliseconds per token in each slice of `size` tokens between `start` and `stop`."""
        ends = range(start, stop + 1, size)
        return [(self.until(end) - self.until(at)) / size for at, end in pairwise(ends)]


@dataclass(frozen=True)
class Batch:
    """Streams that were started together."""

    streams: list[Stream]

    @property
    def first_ms(self) -> float:
        return statistics.median(stream.first_ms for stream in self.streams)

    @property
    def token_ms(self) -> float:
        """Mean time per token after the first event; the median of the streams."""
        return statistics.median(
            1e3 * (each.seconds - each.arrivals[0][0]) / (each.tokens - each.arrivals[0][1])
            for each in self.streams
        )

    @property
    def tokens_per_second(self) -> float:
        last = max(stream.seconds for stream in self.streams)
        return sum(stream.tokens for stream in self.streams) / last


@dataclass(frozen=True)
class Pair:
    """An enforced and a free batch of the same round."""

    enforced: Batch
    free: Batch


class Load:
    """Sends streams to one backend. `http` is that of `BackendClient`."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.backend = BackendClient(http)

    async def batch(
        self, candidates: Sequence[wire.Candidate] | None, streams: int, tokens: int
    ) -> Batch:
        """Run one batch. It is free if `candidates` is None."""
        contents = [await self._request(candidates, tokens) for _ in range(streams)]
        return Batch(list(await asyncio.gather(*map(self._stream, contents))))

    async def pair(
        self, candidates: Sequence[wire.Candidate], streams: int, tokens: int, number: int
    ) -> Pair:
        """Run both batches. Their order alternates with the number of the round."""
        if number % 2:
            free = await self.batch(None, streams, tokens)
            return Pair(await self.batch(candidates, streams, tokens), free)
        enforced = await self.batch(candidates, streams, tokens)
        return Pair(enforced, await self.batch(None, streams, tokens))

    async def _request(self, candidates: Sequence[wire.Candidate] | None, tokens: int) -> bytes:
        enforcement = None
        if candidates is not None:
            chosen = tuple(candidates)
            enforcement = wire.Enforcement(choice="required", candidates=chosen, reasoning="off")
        sampling = wire.Sampling(max_tokens=tokens, temperature=1.0, ignore_eos=enforcement is None)
        return await self.backend.request(TEXT, (), enforcement, sampling)

    async def _stream(self, content: bytes) -> Stream:
        """Raises RuntimeError for an error response and for an error event."""
        arrivals: list[tuple[float, int]] = []
        count, began = 0, time.perf_counter()
        async for data in stream_events(self._http, GENERATE_PATH, content):
            event = json.loads(data)
            if event["event"] == "error":
                raise RuntimeError(str(event["error"]))
            if event["event"] == "tokens":
                count += len(event["ids"])
                arrivals.append((time.perf_counter() - began, count))
        return Stream(arrivals)
