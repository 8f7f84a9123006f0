"""Sends the requests of one seed to a gateway, and judges the responses."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from random import Random
from typing import Any

import httpx

from tests.long.api_conformance.answer import Answer
from tests.long.api_conformance.apis.api import Api
from tests.long.api_conformance.apis.messages import Messages
from tests.long.api_conformance.apis.responses import Responses
from tests.long.api_conformance.case import Case
from tests.long.api_conformance.checks import violations
from tests.long.hostile_calls.cases import make_case, tool_set
from tests.long.hostile_calls.choices import ChatWithChoices
from tests.long.outcomes import Outcome

APIS: tuple[Api, ...] = (ChatWithChoices(), Responses(), Messages())
PER_TOOL_SET = 15
"""Requests with the same tools."""
REFUSALS = (
    *("schema_not_enforceable", "schema_too_complex", "max_tokens_too_small"),
    "toolgate.on_budget",  # the shortest call is not known
)
"""Codes or parameters of 400s that are right for some of the tools and budgets."""
GIVEN_UP = "tool_schema_violation"


@dataclass(frozen=True)
class Load:
    http: httpx.AsyncClient
    model: str
    biases: Sequence[dict[str, float]]
    markup: Sequence[str]
    """Texts that content must not contain."""
    outcome: Outcome

    async def run(self, sets: int, concurrency: int) -> None:
        slots = asyncio.Semaphore(concurrency)
        await asyncio.gather(*(self._tool_set(number, slots) for number in range(sets)))

    async def _tool_set(self, number: int, slots: asyncio.Semaphore) -> None:
        rng = Random(f"hostile-{self.outcome.seed}-{number}")
        functions = tool_set(rng)
        engines: dict[str, str] | None = None
        ways = [*product(APIS, (False, True))]
        for at in range(PER_TOOL_SET):
            case = make_case(rng, functions, self.model, rng.choice(self.biases))
            api, stream = rng.choice(ways)
            async with slots:
                if engines is None:
                    engines = await self._engines(functions)
                await self._one(f"set {number}, request {at}", case, api, stream, engines)
            if len(engines) < len(functions):
                break  # a tool is refused, and so are all requests with it

    async def _engines(self, functions: Sequence[dict[str, Any]]) -> dict[str, str]:
        """The grammar engine of each tool that is not refused, as the gateway reports it."""
        body = {
            "model": self.model,
            "tools": [{"type": "function", "function": f} for f in functions],
        }
        response = await self.http.post("/toolgate/schema", json=body)
        if response.status_code != 200:
            return {}
        [report] = response.json()["backends"]
        return {tool["name"]: tool["engine"] for tool in report["tools"] if tool.get("engine")}

    async def _one(
        self, place: str, case: Case, api: Api, stream: bool, engines: dict[str, str]
    ) -> None:
        body = {**api.request(case), **(api.streaming if stream else {})}
        response = await self.http.post(api.path, json=body)
        self.outcome.counts["requests"] += 1
        what = self._judged(case, api, stream, response, engines)
        if what is not None:
            how = "streamed" if stream else "whole"
            text = f"{place}, {api.name}, {how}: {what}: {json.dumps(body)[:1500]}"
            self.outcome.violations.append(text)

    def _judged(
        self, case: Case, api: Api, stream: bool, response: httpx.Response, engines: dict[str, str]
    ) -> str | None:
        """What is wrong with the response. Counts it and its calls."""
        counts = self.outcome.counts
        if response.status_code == 400 and (code := refusal(response.text)):
            counts[f"refused: {code}"] += 1
            return None
        answers = read(case, api, stream, response)
        if isinstance(answers, str):
            if GIVEN_UP in response.text:
                counts["given up"] += 1
                return None
            return answers
        found: list[str] = []
        for answer in answers:
            count_calls(counts, answer, engines)
            broken = violations(api, case, answer, self.markup)
            found += [f"{kind}: {detail}" for kind, detail in broken]
        return "; ".join(found)[:600] or None


def read(case: Case, api: Api, stream: bool, response: httpx.Response) -> list[Answer] | str:
    """The answers, or why there is none."""
    if response.status_code != 200:
        return f"HTTP {response.status_code}: {response.text[:300]}"
    data = response.content
    try:
        if isinstance(api, ChatWithChoices):
            return api.answers(case, data, stream=stream)
        answer = api.streamed(data) if stream else api.whole(data)
    except (AssertionError, LookupError, TypeError, ValueError) as error:
        return f"invalid response: {error!r}"[:300]
    if answer.reason == "failed":
        return f"the response failed: {response.text[-600:]}"
    return [answer]


def refusal(text: str) -> str | None:
    """The code of a refusal that is right for some requests."""
    return next((code for code in REFUSALS if code in text), None)


def count_calls(counts: Counter[str], answer: Answer, engines: dict[str, str]) -> None:
    for (name, _), is_complete in zip(answer.calls, answer.complete, strict=True):
        if is_complete:
            counts["calls: complete"] += 1
            counts[f"calls: {engines.get(name, 'engine unknown')}"] += 1
        else:
            counts["calls: cut by the maximum of tokens"] += 1
    counts["responses: ended by the maximum of tokens"] += answer.cut
