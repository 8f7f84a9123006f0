"""The fuzzer's requests (bench/fuzz/requests.py) are valid or invalid as they are marked."""

from __future__ import annotations

from collections import Counter
from random import Random

from bench.fuzz.requests import DRAWN_BELOW, Request, make_request
from toolgate_core.errors import InvalidRequest
from toolgate_proxy.api.chat_completions.parameters import PARAMETERS
from toolgate_proxy.api.chat_completions.request import parse_request

REQUESTS = 2000


def outcome(request: Request) -> str:
    try:
        parse_request(request.body, model="tiny")
    except InvalidRequest as error:
        return error.param or "no parameter"
    return "valid"


def test_fuzzed_requests_are_valid_unless_marked() -> None:
    found: Counter[str] = Counter()
    for number in range(REQUESTS):
        request = make_request(Random(number), "tiny", {"5": 100.0})
        result = outcome(request)
        if request.invalid:
            assert request.invalid in result, request.body
        elif not request.wrong:
            assert result == "valid", request.body
        found["invalid" if request.invalid else result] += 1
    assert found["invalid"] > REQUESTS / 100
    assert found["valid"] > REQUESTS / 2


def test_every_sampling_parameter_is_fuzzed() -> None:
    sent = {
        name
        for number in range(REQUESTS)
        for name in make_request(Random(number), "tiny", {"5": 1.0}).body
    }
    assert {row.name for row in PARAMETERS if row.sampling} - DRAWN_BELOW < sent
