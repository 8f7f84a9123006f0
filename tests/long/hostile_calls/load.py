"""Random requests that make random models call tools whose schemas are hard to enforce, and what is
wrong with the responses."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import httpx

from tests.long.judgement import all_violations
from tests.long.outcomes import Outcome
from tests.long.walks.tools import tools
from tests.support.apis import replies
from tests.support.apis.found_tools import SEARCH, with_search
from tests.support.vocabularies import by_token
from toolgate_core.dialects import mark_texts
from toolgate_core.dialects.dialect import Dialect
from toolgate_verify.asking import request
from toolgate_verify.asking.ask import Ask, User
from toolgate_verify.asking.chat import tool as chat_tool
from toolgate_verify.reading.answer import Answer
from toolgate_verify.terms import Api
from toolgate_verify.tools.tool import Tool

ANSWERS = 12
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
    more = {"n": ANSWERS} if api == Api.CHAT else {}
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
    if len(answers) != (ANSWERS if api == Api.CHAT else 1):
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


NAMED = "named"
CHOICES = (*("required",) * 4, NAMED, "auto", "auto", "none")
TEMPERATURES = (0.0, 0.5, 1.0, 1.0, 1.5, 2.0)
BUDGETS = (30, 40, 50, 60, 80, 120, 180, 400)
"""Values of `max_tokens`. The longer ones have room for several calls."""
CLOSERS = {'"': 9.0, "}": 7.5, '"}': 8.0, '",': 8.0, "]": 7.5, '"]': 7.5}
CLOSERS |= {"</think>": 8.5, "<|im_end|>": 7.5}
"""Biases of texts that end values, reasoning and turns."""
CLOSE_MARK, HOSTILE_MARK = 7.5, 8.0
"""Biases of texts that end something, and of texts of calls. They balance the closers of JSON."""


def biases(dialect: Dialect, model: Path) -> list[dict[str, float]]:
    """`logit_bias` by token ID, of three kinds. A random model then ends its values, calls and
    turns; it also writes the family's marks everywhere; it does not end its turns, so that it calls
    again and again."""
    closing = dict.fromkeys(mark_texts.closing_texts(dialect), CLOSE_MARK)
    calling = dict.fromkeys(mark_texts.call_texts(dialect), HOSTILE_MARK)
    ends = (*mark_texts.end_texts(dialect), mark_texts.END_OF_TURN)
    wanted = [CLOSERS | closing, CLOSERS | closing | calling]
    wanted.append({text: bias for text, bias in wanted[1].items() if text not in ends})
    return [by_token(each, model) for each in wanted]


def tool_set(rng: Random, *, found: bool = False) -> tuple[tuple[Tool, ...], tuple[Tool, ...]]:
    """The tools that can be called, and deferred ones that can't. If there are such, the first tool
    is a search, which has found the others. `found`: there always are."""
    offered = _tools(rng)
    while found and len(offered) == 1:
        offered = _tools(rng)
    if len(offered) == 1 or (not found and rng.random() < 0.3):
        return offered, ()
    later = tuple(replace(each, name=f"later_{at}") for at, each in enumerate(_tools(rng)))
    return (replace(offered[0], name=SEARCH), *offered[1:]), later


def _tools(rng: Random) -> tuple[Tool, ...]:
    functions = (each["function"] for each in tools(rng))
    return tuple(Tool(each["name"], "Does it.", each["parameters"]) for each in functions)


def make_case(rng: Random, offered: tuple[Tool, ...], model: str, bias: dict[str, float]) -> Ask:
    temperature = rng.choice(TEMPERATURES)
    extra: dict[str, Any] = {"model": model, "seed": rng.randrange(2**31)}
    if bias and rng.random() < 0.9:
        extra["logit_bias"] = bias
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["repetition_guard"] = False
    if options:
        extra["toolgate"] = options
    text = rng.choice(("Weather?", "</tool_call>", '{"name": "tool_0"', "北京 🙂", "a" * 300))
    choice, named = rng.choice(CHOICES), rng.choice(offered).name
    return Ask(
        (User(text),),
        tools=offered,
        strict=None,
        choice=f"={named}" if choice == NAMED else choice,
        parallel=rng.random() < 0.85,
        temperature=temperature,
        reasoning=None,
        eager=rng.random() < 0.5,
        max_tokens=rng.choice(BUDGETS),
        extra=extra,
    )
