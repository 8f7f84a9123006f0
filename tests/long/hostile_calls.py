"""Hostile tool calls through the whole stack: all families, both adapters, three APIs.

    python -m tests.long hostile-calls --calls 100000 --out FILE
    python -m tests.long hostile-calls --seed 17                  # one of them again
    python -m tests.long hostile-calls --found --calls 5000       # only tools that were found
    python -m tests.long hostile-calls --real --sets 722          # real tools, each alone
    python -m tests.long hostile-calls --families qwen3 glm45     # only seeds of these families

Each seed is a gateway and a backend with one adapter and a random model in the form of one family.
The tools are those of `walks`. The temperatures are 0 to 2, with biases that make the model
end its calls, or write the family's marks everywhere. Each response is checked: its calls parse and
satisfy their schemas, `tool_choice` is kept, content has no marks. In some requests a search has
found some of the tools, and only they are called. Given up are requests that end with the error
`tool_schema_violation`.

With --out, the outcome of each seed is a line of FILE, and seeds that it has are not run again.
Several runs with the same FILE can go on beside each other, from different seeds (--first), so that
one starts its servers while another one sends requests. The exit status is 1 if something is wrong.
"""

import argparse
import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count, product
from pathlib import Path
from random import Random
from typing import Any

import httpx

from bench.support.contenders import exit_on_sigterm, running
from tests.long.judgement import all_violations
from tests.long.outcomes import Outcome, Runs, parser_of
from tests.long.walks import tools
from tests.models import ROOT, tiny_family
from tests.support.apis import replies
from tests.support.apis.found_tools import SEARCH, with_search
from tests.support.schemas.suites import real_tools
from tests.support.servers.http_client import http_client
from tests.support.vocabularies import by_token
from toolgate_core.dialects import marks as mark_texts
from toolgate_core.dialects.dialect import Dialect
from toolgate_core.dialects.registry import DIALECTS
from toolgate_verify.asking import request
from toolgate_verify.asking.ask import Ask, User
from toolgate_verify.asking.chat import tool as chat_tool
from toolgate_verify.reading.answer import Answer
from toolgate_verify.terms import Api
from toolgate_verify.tools.tool import Tool

FAMILIES = [name for name, dialect in DIALECTS.items() if dialect.calls is not None]
Random("families").shuffle(FAMILIES)
ADAPTERS = ("logits_processor", "structured_output")
TIMEOUT = 300
"""Seconds within which a response must end."""
ANSWERS = 12
"""Choices of each chat completion: more calls for the same prompt and grammars."""
PER_TOOL_SET = 15
"""Requests with the same tools."""
REFUSALS = ("schema_not_enforceable", "schema_too_complex", "max_tokens_too_small")
"""Codes or parameters of 400s that are right for some of the tools and budgets."""
GIVEN_UP = "tool_schema_violation"


Tools = tuple[tuple[Tool, ...], tuple[Tool, ...]]
"""The tools that can be called, and deferred ones that can't."""
Draw = Callable[[int, Random], Tools]


@dataclass(frozen=True)
class Load:
    http: httpx.AsyncClient
    model: str
    biases: Sequence[dict[str, float]]
    markup: Sequence[str]
    """Texts that content must not contain."""
    outcome: Outcome
    draw: Draw
    """The tools of a set, by its number."""

    async def run(self, sets: int, concurrency: int) -> None:
        slots = asyncio.Semaphore(concurrency)
        await asyncio.gather(*(self._tool_set(number, slots) for number in range(sets)))

    async def _tool_set(self, number: int, slots: asyncio.Semaphore) -> None:
        rng = Random(f"hostile-{self.outcome.seed}-{number}")
        offered, later = self.draw(number, rng)
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


def tool_set(_: int, rng: Random, *, found: bool = False) -> Tools:
    """If there are deferred tools, the first tool is a search, which has found the others. `found`:
    there always are."""
    offered = _tools(rng)
    while found and len(offered) == 1:
        offered = _tools(rng)
    if len(offered) == 1 or (not found and rng.random() < 0.3):
        return offered, ()
    later = tuple(replace(each, name=f"later_{at}") for at, each in enumerate(_tools(rng)))
    return (replace(offered[0], name=SEARCH), *offered[1:]), later


@cache
def _real() -> tuple[Tool, ...]:
    return tuple(Tool("submit", "Does it.", tool["parameters"]) for tool in real_tools())


def real_tool(number: int, _: Random) -> Tools:
    return (_real()[number % len(_real())],), ()


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


def labelled(outcomes: Iterable[Outcome]) -> list[str]:
    """Lines with what counts by the labels of the seeds."""
    families, adapters = set[str](), Counter[str]()
    for each in outcomes:
        families.add(each.labels["family"])
        adapters[each.labels["adapter"]] += each.counts["calls: complete"]
    calls = (f"Calls with {adapter}: {count:,}" for adapter, count in sorted(adapters.items()))
    return [f"Families: {len(families)}", *calls]


def settings(seed: int) -> tuple[str, str]:
    """Family and adapter: after all families, each with the other adapter."""
    rounds, at = divmod(seed, len(FAMILIES))
    return FAMILIES[at], ADAPTERS[(at + rounds) % 2]


def seeds_of(families: Container[str], first: int) -> Iterator[int]:
    """Yield the seeds of the families, from the first one on."""
    return (seed for seed in count(first) if settings(seed)[0] in families)


def run(seed: int, options: argparse.Namespace) -> Outcome:
    """Raises NotStarted."""
    family, adapter = settings(seed)
    outcome = Outcome(seed, labels={"family": family, "adapter": adapter})
    dialect = DIALECTS[family]
    model = ROOT / ".cache" / "models" / f"tiny-{family}"
    tiny_family.build(model, dialect)
    draw: Draw = real_tool if options.real else partial(tool_set, found=options.found)
    began = time.monotonic()
    with running("toolgate", model, label="hostile", env={"TOOLGATE_ADAPTER": adapter}) as server:
        # The server closes a connection after five idle seconds, possibly while it is used again.
        limits = httpx.Limits(max_keepalive_connections=0)
        http = http_client(server.url, server.key, timeout=TIMEOUT, limits=limits)
        markup = mark_texts.markup(dialect)
        load = Load(http, server.model_name(), biases(dialect, model), markup, outcome, draw)

        async def send() -> None:
            async with http:
                await load.run(options.sets, options.concurrency)

        asyncio.run(send())
        if not server.alive():
            outcome.violations.append("the server died")
    outcome.seconds = time.monotonic() - began
    return outcome


def main() -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--calls", type=int, default=1_000, help="complete calls in all")
    parser.add_argument("--sets", type=int, default=20, help="sets of tools of each seed")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--concurrency", type=int, default=48)
    parser.add_argument("--found", action="store_true", help="a search has found all tools")
    parser.add_argument("--real", action="store_true", help="each set is one real tool")
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES, metavar="NAME")
    options = parser.parse_args()
    exit_on_sigterm()
    if options.seed is not None:
        runs = Runs()
        runs.add(run(options.seed, options))
    else:
        runs = Runs(options.out)
        while runs.total("calls: complete") < options.calls:
            seed = next(runs.missing(seeds_of(options.families, options.first)))
            runs.add(run(seed, options))
            runs.reread()
    return runs.report("seeds", *labelled(runs.done.values()))
