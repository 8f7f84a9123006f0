"""Requests with tools through the whole stack: whatever a model samples, calls are valid, and an
answer is the same in all forms."""

import io
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace

import pytest
from rich.console import Console

from tests import tools
from tests.long.fuzz.run import fuzz, left_in_gateway
from tests.long.judgement import all_violations, shows_reasoning
from tests.models import tiny_model
from tests.support.apis.found_tools import SEARCH, with_search
from tests.support.effort import repeats, rotating
from toolgate_proxy.ops.demo import comparison
from toolgate_proxy.ops.demo import run as demo
from toolgate_proxy.ops.demo.cases import cases, properties
from toolgate_proxy.ops.stack.processes import free_port
from toolgate_verify.asking import request
from toolgate_verify.asking.ask import Ask, User
from toolgate_verify.terms import Api
from toolgate_verify.tools.tool import Tool

from . import kit

ROOM = {"type": "string", "pattern": "^[A-Z]-[0-9]{2}$"}


@kit.both_adapters
@kit.both_ways
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_every_property_of_every_case_holds_in_both_forms(http, common, seed):
    """All cases are in flight at once."""
    asked = [{**common, **case.request, "seed": seed} for case in cases()]
    failed = [
        f"{case.title}: {name}"
        for case, [answer] in zip(cases(), kit.both_forms(http, asked), strict=True)
        for name, holds in properties(case.request, answer).items()
        if not holds
    ]
    assert not failed


# --- the three APIs ---

OFFERED = tuple(
    Tool(each["name"], each.get("description", ""), each["parameters"])
    for each in (tool["function"] for tool in tools.ALL)
)
WAYS = ((Api.MESSAGES, False), (Api.MESSAGES, True), (Api.CHAT, False), (Api.RESPONSES, False))
"""APIs that are asked, and whether the response is streamed."""


def body_of(api, case):
    """The body of a case. Its effort only says whether the model reasons: the template's switch
    means the same in each API, and the Messages API has one of its own."""
    body = request(api, replace(case, reasoning=None)).body
    assert body is not None
    reasons = case.reasoning != "none"
    if api == Api.MESSAGES:
        return body | {"thinking": {"type": "adaptive" if reasons else "disabled"}}
    return body | {"chat_template_kwargs": {"enable_thinking": reasons}}


def in_all_apis(http, case):
    """The answers of a case in all ways, each of which breaks no rule."""
    found = []
    for api, stream in WAYS:
        [reply] = kit.ask(http, body_of(api, case), stream=stream, api=api)
        assert [*all_violations(api, case, reply.answer)] == [], (api, stream, case)
        found.append(reply.answer)
    return found


def compared(answer, case):
    """What the answers of all APIs have in common. The Messages API has no spelling of arguments,
    and no incomplete calls."""
    calls = [
        (call.name, json.dumps(json.loads(call.arguments), sort_keys=True))
        for call in answer.calls
        if call.complete
    ]
    reasoning = answer.reasoning if shows_reasoning(Api.MESSAGES, case) else ""
    assert answer.usage is not None
    counts = answer.usage.prompt, answer.usage.completion
    return answer.text, reasoning, calls, answer.cut, counts


def test_seeded_answers_are_the_same_in_all_apis_with_every_call_valid(http, model, bias):
    turn = (User("What's the weather?"),)
    usual = Ask(turn, system="Be brief.", tools=OFFERED, strict=None, temperature=1.0)
    extra = {"model": model, "logit_bias": bias, "seed": 11}
    asked = [
        replace(usual, choice=choice, reasoning=reasoning, max_tokens=most, extra=extra)
        for choice, reasoning, most in (
            *(("auto", "none", 400), ("auto", "medium", 90)),
            *(("required", "none", 90), ("required", "medium", 400)),
        )
    ]
    with ThreadPoolExecutor(len(asked)) as pool:
        batch = list(pool.map(lambda case: in_all_apis(http, case), asked))
    for case, found in zip(asked, batch, strict=True):
        first, *others = (compared(each, case) for each in found)
        if any(other != first for other in others):
            # What else is in the engine's batch can change a sampled token.
            first, *others = (compared(each, case) for each in in_all_apis(http, case))
            assert [first, first, first] == others, case
    assert any(each.calls for found in batch for each in found[:2])
    assert any(each.cut for found in batch for each in found[:2])


def test_the_count_of_tokens_is_that_of_the_usage(http, model):
    for reasoning in ("none", "medium"):
        case = Ask((User("Go on."),), tools=OFFERED, strict=None, reasoning=reasoning, max_tokens=4)
        body = body_of(Api.MESSAGES, case) | {"model": model}
        counted = http.post("/v1/messages/count_tokens", json=body).json()["input_tokens"]
        usage = http.post("/v1/messages", json=body).json()["usage"]
        assert usage["input_tokens"] + usage["cache_read_input_tokens"] == counted > 0


# --- tools that a search has found ---


def tool(name, **properties):
    return Tool(name, "Does it.", tools.tool(name, properties)["function"]["parameters"])


FOUND = (
    tool(SEARCH, query={"type": "string", "maxLength": 9}),
    tool("open_valve", room=ROOM),
    tool("close_valve", room=ROOM, force={"type": "boolean"}),
)
LATER = tuple(tool(name, room=ROOM) for name in ("lock_valve", "open_door", "search_valve"))
SEEDS = range(8)


@pytest.mark.parametrize("api", Api)
def test_found_tools_are_enforced_and_deferred_ones_are_never_called(http, model, bias, api):
    asked = Ask(
        (User("Open a valve."),),
        tools=FOUND,
        strict=None,
        choice="required",
        temperature=1.0,
        max_tokens=200,
    )

    def called(seed):
        stream = seed % 2 == 1
        extra = {"model": model, "logit_bias": bias, "seed": seed}
        case = replace(asked, extra=extra, stream=stream)
        body = with_search(api, request(api, case).body or {}, LATER)
        [reply] = kit.ask(http, body, stream=stream, api=api)
        assert [*all_violations(api, case, reply.answer)] == []
        return {call.name for call in reply.answer.calls}

    with ThreadPoolExecutor(len(SEEDS)) as pool:
        names = set().union(*pool.map(called, SEEDS))
    assert len(names) > 1, "the model chooses"


# --- random requests ---


@kit.both_adapters
@rotating("api", Api, one_in=3)
async def test_random_requests_violate_nothing_and_leave_nothing_behind(
    gateway, backend, model, bias, api
):
    """`python -m tests.long fuzz` sends ten thousand of them."""
    count = repeats(40, nightly=320 if api == Api.CHAT else 80)
    options = {"model": model, "count": count, "concurrency": 16, "seed": 1}
    findings = await fuzz(gateway.url, gateway.key, bias=bias, api=api, **options)
    assert not findings.violations, findings.report()
    answered = count - findings.outcomes["disconnected"]  # how many depends on the machine
    assert findings.outcomes["200"] > answered / 3, findings.report()  # about half are invalid
    left = kit.status(backend)
    assert (left.running, left.sequences, left.pinned_grammars) == (0, 0, 0)
    assert not await left_in_gateway(gateway.url, gateway.key)


# --- `toolgate demo` ---

DEMO_SECONDS = 300
SHOWN = [*cases()][1::4]
"""Some cases, one of each kind of tool_choice."""
VALID = {"all calls are valid", "correct finish_reason"}
PROMISED = {
    "two cities, parallel calls": {"at least one call", *VALID},
    'reasoning_effort="high"': {"at least one call", "reasoning separate from content", *VALID},
    "the named function return_json": {"exactly one call of return_json", *VALID},
    "an array of exactly 3 strings of at most 6 characters": {"at most one call", *VALID},
}


def test_the_demo_shows_cases_and_a_comparison_beside_the_unconstrained_model(stack, monkeypatch):
    monkeypatch.setattr(demo.cases, "cases", lambda: SHOWN)
    running = SimpleNamespace(url=stack.url, master_key=stack.master_key, model="tiny")
    output = io.StringIO()
    failed = demo.Demo(running, str(tiny_model()), Console(file=output)).run()
    assert failed == 0, output.getvalue()
    sections = [text for text in output.getvalue().split("──── ") if "tool_choice" in text]
    for case, section in zip(SHOWN, sections, strict=True):
        assert case.title in section
        [line] = [each for each in section.splitlines() if "unconstrained output: " in each]
        assert len(line) > len("unconstrained output: ")
        for name in PROMISED[case.title]:
            assert f"✓ {name}" in section
    [summary] = re.findall(
        r"alone (\d+)/(\d+) valid.* · Toolgate (\d+)/(\d+) valid", output.getvalue()
    )
    alone, every, enforced, as_many = map(int, summary)
    assert every == as_many == enforced == comparison.NUMBER
    assert alone == 0, "random weights write no call by themselves"


@pytest.mark.slow
def test_the_shipped_models_demo_ends_with_every_answer_true():
    command = [sys.executable, "-m", "toolgate_proxy", "demo", "--once", "--port", str(free_port())]
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=DEMO_SECONDS, check=False
    )
    output = " ".join(ended.stdout.split())
    assert ended.returncode == 0, output
    assert "have all properties, and all answers to the cases are correct" in output
    assert "✗ Toolgate" not in output
    [(alone, every)] = re.findall(r"alone (\d+)/(\d+) valid", output)
    assert int(alone) < int(every), "the demo shows what enforcement changes"
