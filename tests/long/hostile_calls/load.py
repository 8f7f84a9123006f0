"""Sends the requests of one seed to a gateway, and judges the responses."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from random import Random
from typing import Any

import httpx

from tests.long.hostile_calls.cases import make_case, tool_set
from tests.long.judgement import all_violations
from tests.long.outcomes import Outcome
from tests.support.apis import replies
from tests.support.apis.found_tools import with_search
from toolgate_verify.asking import request
from toolgate_verify.asking.ask import Ask
from toolgate_verify.asking.chat import tool as chat_tool
from toolgate_verify.reading.answer import Answer
from toolgate_verify.terms import Api
from toolgate_verify.tools.tool import Tool

CHOICES = 12
"""Choices of each chat completion: more calls for the same prompt and grammars."""
PER_TOOL_SET = 15
"""Requests with the same tools."""
REFUSALS = ("schema_not_enforceable", "schema_too_complex", "max_tokens_too_small")
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
    found: bool = False
    """Whether a search has found the tools of all requests."""

    async def run(self, sets: int, concurrency: int) -> None:
        slots = asyncio.Semaphore(concurrency)
        await asyncio.gather(*(self._tool_set(number, slots) for number in range(sets)))

    async def _tool_set(self, number: int, slots: asyncio.Semaphore) -> None:
        rng = Random(f"hostile-{self.outcome.seed}-{number}")
        offered, later = tool_set(rng, found=self.found)
        engines: dict[str, str] | None = None
        ways = [*product(Api, (False, True))]
        for at in range(PER_TOOL_SET):
            case = make_case(rng, offered, self.model, rng.choice(self.biases))
            api, stream = rng.choice(ways)
            body = body_of(api, case, later, stream=stream)
            async with slots:
                if engines is None:
                    engines = await self._engines(offered)
                await self._one(f"set {number}, request {at}", case, api, body, engines)
            if len(engines) < len(offered):
                break  # a tool is refused, and so are all requests with it

    async def _engines(self, offered: Sequence[Tool]) -> dict[str, str]:
        """The grammar engine of each tool that is not refused, as the gateway reports it."""
        tools = [chat_tool(each, strict=None) for each in offered]
        body = {"model": self.model, "tools": tools}
        response = await self.http.post("/toolgate/schema", json=body)
        if response.status_code != 200:
            return {}
        [report] = response.json()["backends"]
        return {tool["name"]: tool["engine"] for tool in report["tools"] if tool.get("engine")}

    async def _one(
        self, place: str, case: Ask, api: Api, body: dict[str, Any], engines: dict[str, str]
    ) -> None:
        stream = body.get("stream", False)
        response = await self.http.post(replies.PATHS[api], json=body)
        self.outcome.counts["requests"] += 1
        what = self._judged(case, api, stream, response, engines)
        if what is not None:
            how = "streamed" if stream else "whole"
            text = f"{place}, {api}, {how}: {what}: {json.dumps(body)[:1500]}"
            self.outcome.violations.append(text)

    def _judged(
        self, case: Ask, api: Api, stream: bool, response: httpx.Response, engines: dict[str, str]
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
            broken = all_violations(api, case, answer, self.markup)
            found += [f"{kind}: {detail}" for kind, detail in broken]
        return "; ".join(found)[:600] or None


def body_of(
    api: Api, case: Ask, later: Sequence[Tool] = (), *, stream: bool = False
) -> dict[str, Any]:
    more = {"n": CHOICES} if api == Api.CHAT else {}
    body = request(api, replace(case, stream=stream), **more).body
    assert body is not None
    return with_search(api, body, later) if later else body


def read(case: Ask, api: Api, stream: bool, response: httpx.Response) -> list[Answer] | str:
    """The answers, or why there is none."""
    if response.status_code != 200:
        return f"HTTP {response.status_code}: {response.text[:300]}"
    try:
        found = replies.read(api, response.content, streamed=stream)
    except replies.REFUSED as error:
        return f"invalid response: {error!r}"[:300]
    answers = [reply.answer for reply in found]
    if len(answers) != (CHOICES if api == Api.CHAT else 1):
        return f"{len(answers)} choices"
    if answers[0].finish == "failed":
        return f"the response failed: {response.text[-600:]}"
    for answer in answers:
        if api == Api.CHAT and answer.usage is not None:  # that of all choices together
            answer.usage.completion = min(answer.usage.completion, case.max_tokens)
    return answers


def refusal(text: str) -> str | None:
    """The code of a refusal that is right for some requests."""
    return next((code for code in REFUSALS if code in text), None)


def count_calls(counts: Counter[str], answer: Answer, engines: dict[str, str]) -> None:
    for call in answer.calls:
        if call.complete:
            counts["calls: complete"] += 1
            counts[f"calls: {engines.get(call.name, 'engine unknown')}"] += 1
        else:
            counts["calls: cut by the maximum of tokens"] += 1
    counts["responses: ended by the maximum of tokens"] += answer.cut
