"""The fuzzer's requests are valid or invalid as they are marked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from tests.long.fuzz.run import MAKERS
from tests.long.fuzz.values import DRAWN, Request
from tests.support.effort import repeats
from toolgate_core.errors import InvalidRequest
from toolgate_proxy.api.chat_completions.parameters import PARAMETERS as CHAT
from toolgate_proxy.api.chat_completions.surface import ChatCompletions
from toolgate_proxy.api.messages.parameters import PARAMETERS as MESSAGES
from toolgate_proxy.api.messages.surface import Messages
from toolgate_proxy.api.responses.parameters import PARAMETERS as RESPONSES
from toolgate_proxy.api.responses.surface import Responses
from toolgate_proxy.api.shared.parameter import Parameter
from toolgate_proxy.api.surface import Surface
from toolgate_verify.terms import Api

REQUESTS = repeats(1000, nightly=2000)
PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*|\[\d+\]|\[\".*?\"\])*")
STEP = re.compile(r"\[\".*?\"\]|\w+")
SURFACES: dict[Api, Surface] = {
    Api.CHAT: ChatCompletions(),
    Api.RESPONSES: Responses(),
    Api.MESSAGES: Messages(),
}
TABLES: dict[Api, Sequence[Parameter]] = {
    Api.CHAT: CHAT,
    Api.RESPONSES: RESPONSES,
    Api.MESSAGES: MESSAGES,
}


def outcome(surface: Surface, request: Request) -> str:
    try:
        surface.parse(json.loads(json.dumps(request.body)), model="tiny")
    except InvalidRequest as error:
        return error.param or "no parameter"
    return "valid"


def is_path(param: str, body: dict[str, Any]) -> bool:
    """Whether `param` leads to a value of the request, or to a field that is missing there."""
    if not PATH.fullmatch(param):
        return False
    value: Any = body
    *parents, _ = STEP.findall(param)
    for step in parents:
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (LookupError, TypeError, ValueError):
            return False
    return True


def drawn(api: Api, number: int) -> Request:
    return MAKERS[api](Random(number), "tiny", {"5": 100.0})


@pytest.mark.exhaustive
@pytest.mark.parametrize("api", Api)
def test_fuzzed_requests_are_valid_unless_marked(api: Api) -> None:
    found: Counter[str] = Counter()
    for number in range(REQUESTS):
        request = drawn(api, number)
        result = outcome(SURFACES[api], request)
        if request.invalid:
            assert request.invalid in result, request.body
        elif request.wrong:
            assert result != "no parameter", request.body
        else:
            assert result == "valid", request.body
        found["invalid" if request.invalid else result] += 1
    assert found["invalid"] > REQUESTS / 100
    assert REQUESTS / 2 < found["valid"] < REQUESTS


@pytest.mark.exhaustive
@pytest.mark.parametrize("api", Api)
def test_param_of_a_refusal_is_a_path_in_the_request(api: Api) -> None:
    refused = 0
    for number in range(REQUESTS):
        request = drawn(api, number)
        param = outcome(SURFACES[api], request)
        if param not in ("valid", "no parameter"):
            assert is_path(param, request.body), (param, request.body)
            refused += 1
    assert refused > REQUESTS / 100


@pytest.mark.parametrize("param", ["/messages/0", "messages.0.content", "tools[3].name", "a b", ""])
def test_other_notations_are_no_paths(param: str) -> None:
    assert not is_path(param, {"messages": [{"content": "x"}], "tools": []})


@pytest.mark.parametrize("api", Api)
def test_every_sampling_parameter_is_fuzzed(api: Api) -> None:
    sent = {name for number in range(REQUESTS) for name in drawn(api, number).body}
    assert {row.name for row in TABLES[api] if row.sampling} - DRAWN < sent
