"""Sends the cases of one bias, checks the answers and compares those of several APIs."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from tests.long.api_conformance.answer import NONE, Answer
from tests.long.api_conformance.apis.api import Api
from tests.long.api_conformance.case import Case
from tests.long.api_conformance.checks import violations


@dataclass
class Result:
    """Counts of one bias. `calls` and `cut` are of the API under evaluation."""

    cases: int = 0
    requests: int = 0
    cut: int = 0
    calls: int = 0
    repeated: int = 0
    """Cases whose answers differed in a batch and were repeated alone."""
    seconds: float = 0.0
    violations: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, case: int, detail: object) -> None:
        self.violations[kind] += 1
        self.examples.setdefault(kind, f"case {case}: {str(detail)[:600]}")


class Evaluation:
    """`api` is asked whole and streamed, the `others` whole."""

    def __init__(
        self, http: httpx.AsyncClient, api: Api, others: Sequence[Api], concurrency: int
    ) -> None:
        self._http = http
        self._api = api
        self._others = others
        self._slots = asyncio.Semaphore(concurrency)
        self.result = Result()

    async def run(self, cases: Sequence[Case]) -> Result:
        started = time.monotonic()
        differing = await asyncio.gather(*map(self._in_batch, itertools.count(), cases))
        for at, case in enumerate(cases):
            if differing[at]:
                self.result.repeated += 1
                await self._check_equal(at, case)
        self.result.seconds = time.monotonic() - started
        return self.result

    async def _in_batch(self, at: int, case: Case) -> bool:
        """Checks the answers of a case. Returns whether they differ."""
        async with self._slots:
            whole, streamed, *others = await self._answers(at, case)
        self.result.cases += 1
        for answer in (whole, streamed):
            self.result.calls += len(answer.calls)
            self.result.cut += answer.cut
            self._check(self._api, at, case, answer)
        for api, answer in zip(self._others, others, strict=True):
            self._check(api, at, case, answer)
        return not self._are_equal(self._api, case, whole, streamed) or not all(
            self._are_equal(api, case, whole, other)
            for api, other in zip(self._others, others, strict=True)
        )

    def _check(self, api: Api, at: int, case: Case, answer: Answer) -> None:
        if answer is NONE:  # counted already
            return
        for kind, detail in violations(api, case, answer):
            self.result.add(f"{api.name}: {kind}", at, detail)

    def _are_equal(self, api: Api, case: Case, whole: Answer, other: Answer) -> bool:
        """Whether an answer of `api` is equal to the whole one of the API under evaluation."""
        exact = self._api.exact and api.exact
        reasoning = self._api.shows_reasoning(case) and api.shows_reasoning(case)
        first, second = (each.compared(exact=exact, reasoning=reasoning) for each in (whole, other))
        return first == second

    async def _check_equal(self, at: int, case: Case) -> None:
        whole, streamed, *others = await self._answers(at, case)
        again = await self._answer(at, case, self._api, stream=False)
        if not self._are_equal(self._api, case, whole, again):
            self.result.add("not deterministic alone", at, (whole, again))
            return
        if not self._are_equal(self._api, case, whole, streamed):
            self.result.add("streamed differs from whole", at, (whole, streamed))
        for api, other in zip(self._others, others, strict=True):
            if not self._are_equal(api, case, whole, other):
                kind = f"{api.name} differs from {self._api.name}"
                self.result.add(kind, at, (whole, other))

    async def _answers(self, at: int, case: Case) -> list[Answer]:
        """Whole, streamed, and whole by the other APIs."""
        return [
            await self._answer(at, case, self._api, stream=False),
            await self._answer(at, case, self._api, stream=True),
            *[await self._answer(at, case, api, stream=False) for api in self._others],
        ]

    async def _answer(self, at: int, case: Case, api: Api, *, stream: bool) -> Answer:
        """The answer, or `NONE` if it can't be read."""
        self.result.requests += 1
        try:
            body = {**api.request(case), **(api.streaming if stream else {})}
            response = await self._http.post(api.path, json=body)
            assert response.status_code == 200, response.text
            return (api.streamed if stream else api.whole)(response.content)
        except (AssertionError, ValueError, KeyError, httpx.HTTPError) as error:
            how = "streamed" if stream else "whole"
            self.result.add(f"{api.name}, {how}: {type(error).__name__}", at, error)
            return NONE
