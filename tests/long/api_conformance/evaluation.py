"""Sends the cases of one bias, checks the answers and compares those of several APIs."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import httpx

from tests.long.api_conformance.cases import body_of
from tests.long.api_conformance.checks import compared, shows_reasoning, violations
from tests.support.apis import replies
from toolgate_verify.asking.ask import Ask
from toolgate_verify.reading.answer import Answer
from toolgate_verify.terms import Api

TITLES = {Api.CHAT: "chat completions", Api.RESPONSES: "Responses", Api.MESSAGES: "Messages"}
NONE = Answer()
"""Stands for an answer that could not be read."""


@dataclass
class Result:
    """Counts of one bias. `calls` and `cut` are of the API under evaluation."""

    cases: int = 0
    requests: int = 0
    cut: int = 0
    calls: int = 0
    repeated: int = 0
    """Asks whose answers differed in a batch and were repeated alone."""
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

    async def run(self, cases: Sequence[Ask]) -> Result:
        started = time.monotonic()
        differing = await asyncio.gather(*map(self._in_batch, itertools.count(), cases))
        for at, case in enumerate(cases):
            if differing[at]:
                self.result.repeated += 1
                await self._check_equal(at, case)
        self.result.seconds = time.monotonic() - started
        return self.result

    async def _in_batch(self, at: int, case: Ask) -> bool:
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

    def _check(self, api: Api, at: int, case: Ask, answer: Answer) -> None:
        if answer is NONE:  # counted already
            return
        for kind, detail in violations(api, case, answer):
            self.result.add(f"{TITLES[api]}: {kind}", at, detail)

    def _are_equal(self, api: Api, case: Ask, whole: Answer, other: Answer) -> bool:
        """Whether an answer of `api` is equal to the whole one of the API under evaluation."""
        exact = Api.MESSAGES not in (self._api, api)
        reasoning = all(shows_reasoning(each, case) for each in (self._api, api))
        first, second = (
            compared(each, exact=exact, reasoning=reasoning) for each in (whole, other)
        )
        return first == second

    async def _check_equal(self, at: int, case: Ask) -> None:
        whole, streamed, *others = await self._answers(at, case)
        again = await self._answer(at, case, self._api, stream=False)
        if not self._are_equal(self._api, case, whole, again):
            self.result.add("not deterministic alone", at, (whole, again))
            return
        if not self._are_equal(self._api, case, whole, streamed):
            self.result.add("streamed differs from whole", at, (whole, streamed))
        for api, other in zip(self._others, others, strict=True):
            if not self._are_equal(api, case, whole, other):
                kind = f"{TITLES[api]} differs from {TITLES[self._api]}"
                self.result.add(kind, at, (whole, other))

    async def _answers(self, at: int, case: Ask) -> list[Answer]:
        """Whole, streamed, and whole by the other APIs."""
        return [
            await self._answer(at, case, self._api, stream=False),
            await self._answer(at, case, self._api, stream=True),
            *[await self._answer(at, case, api, stream=False) for api in self._others],
        ]

    async def _answer(self, at: int, case: Ask, api: Api, *, stream: bool) -> Answer:
        """The answer, or `NONE` if it can't be read."""
        self.result.requests += 1
        try:
            body = body_of(api, replace(case, stream=stream))
            response = await self._http.post(replies.PATHS[api], json=body)
            assert response.status_code == 200, response.text
            [reply] = replies.read(api, response.content, streamed=stream)
            return reply.answer
        except (*replies.REFUSED, httpx.HTTPError) as error:
            how = "streamed" if stream else "whole"
            self.result.add(f"{TITLES[api]}, {how}: {type(error).__name__}", at, error)
            return NONE
