"""Streams asked of one backend over its own wire, enforced or free, and when their tokens came.

Free is the same request without enforcement: the same prompt, on the same server, the end of turn
ignored. Tools are never in the prompt, only in the enforcement, so that what grows is not the
prefill.
"""

import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import httpx

from bench.support.raw import PATH, RawBackend, lines
from toolgate_core import wire

TEXT = "Go on."


@dataclass(frozen=True)
class Stream:
    """One answer: `arrivals` are the seconds since it was asked for and the tokens there were by
    then."""

    arrivals: list[tuple[float, int]]

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
        """Milliseconds until so many tokens were there."""
        return next(1e3 * seconds for seconds, count in self.arrivals if count >= tokens)

    def slices(self, start: int, stop: int, size: int) -> list[float]:
        """Milliseconds a token, for each `size` of the tokens from `start` to `stop`."""
        ends = range(start, stop + 1, size)
        return [(self.until(end) - self.until(at)) / size for at, end in pairwise(ends)]


@dataclass(frozen=True)
class Batch:
    """Streams that were begun together."""

    streams: list[Stream]

    @property
    def first_ms(self) -> float:
        return statistics.median(stream.first_ms for stream in self.streams)

    @property
    def token_ms(self) -> float:
        """A token after the first, on the average."""
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
    """Measured next to each other."""

    enforced: Batch
    free: Batch


class Load:
    """`http` has the backend as its base and its key in its headers."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http
        self.backend = RawBackend(http)

    async def batch(
        self, candidates: Sequence[wire.Candidate] | None, streams: int, tokens: int
    ) -> Batch:
        """Without candidates: free."""
        contents = [await self._request(candidates, tokens) for _ in range(streams)]
        return Batch(list(await asyncio.gather(*map(self._stream, contents))))

    async def pair(
        self, candidates: Sequence[wire.Candidate], streams: int, tokens: int, number: int
    ) -> Pair:
        """`number` is the round's: what comes first in one comes last in the next."""
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
        """Raises RuntimeError for an error, before the stream or in it."""
        arrivals: list[tuple[float, int]] = []
        count, began = 0, time.perf_counter()
        async with self._http.stream("POST", PATH, content=content) as answer:
            if answer.is_error:
                raise RuntimeError((await answer.aread()).decode(errors="replace")[:300])
            async for line in lines(answer):
                if not line.startswith(b"data: {"):
                    continue
                event = json.loads(line[6:])
                if event["event"] == "error":
                    raise RuntimeError(str(event["error"]))
                if event["event"] == "tokens":
                    count += len(event["ids"])
                    arrivals.append((time.perf_counter() - began, count))
        return Stream(arrivals)
