"""Random requests of the long tests: valid unless they are marked, and repeated exactly. Outcomes
of seeds are kept in a file."""

import json
import re
from collections import Counter
from itertools import islice
from random import Random

import pytest

from tests.long import hostile_calls
from tests.long.fuzz.checks import DRAWN, damage
from tests.long.fuzz.requests import TABLES, make_request
from tests.long.hostile_calls import body_of, make_case, tool_set
from tests.long.outcomes import Outcome, Runs
from tests.support.apis.messages_api import check_error
from tests.support.effort import repeats
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import InvalidRequest
from toolgate_proxy.api.surface import Reading
from toolgate_proxy.api.surfaces import SURFACES
from toolgate_verify.terms import Api

REQUESTS = repeats(150, nightly=2000)
PATH = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*|\[\d+\]|\[\".*?\"\])*")
STEP = re.compile(r"\[\".*?\"\]|\w+")
PARSERS = dict(zip((Api.CHAT, Api.RESPONSES, Api.MESSAGES), SURFACES, strict=True))


def refusal_of(api, body):
    try:
        parsed, _ = PARSERS[api].read(json.loads(json.dumps(body)), Reading("tiny"))
    except InvalidRequest as error:
        return error
    assert len(parsed.messages) == len(parsed.message_paths)
    return None


def outcome(api, request):
    refusal = refusal_of(api, request.body)
    return "valid" if refusal is None else refusal.param or "no parameter"


def is_path(param, body):
    """Whether `param` leads to a value of the request, or to a field that is missing there."""
    if not PATH.fullmatch(param):
        return False
    value = body
    *parents, _ = STEP.findall(param)
    for step in parents:
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (LookupError, TypeError, ValueError):
            return False
    return True


@pytest.mark.exhaustive
@pytest.mark.parametrize("api", Api)
def test_fuzzed_requests_are_valid_or_their_refusal_names_a_place_in_them(api):
    found = Counter()
    sent = set[str]()
    for number in range(REQUESTS):
        request = make_request(api, Random(number), "tiny", {"5": 100.0})
        result = outcome(api, request)
        if request.invalid:
            assert request.invalid in result, request.body
        elif request.wrong:
            assert result != "no parameter", request.body
        else:
            assert result == "valid", request.body
        assert result == "valid" or is_path(result, request.body), (result, request.body)
        found["invalid" if request.invalid else result] += 1
        sent |= request.body.keys()
    assert found["invalid"] > REQUESTS / 100
    assert REQUESTS / 2 < found["valid"] < REQUESTS
    assert {
        name for name, row in TABLES[api].items() if row.to.startswith("sampling")
    } - DRAWN < sent


@pytest.mark.exhaustive
@pytest.mark.parametrize("api", Api)
def test_a_damaged_request_is_parsed_or_its_refusal_names_a_place_in_it(api):
    """Any JSON anywhere."""
    refused, count = 0, 2 * REQUESTS
    for number in range(count):
        rng = Random(number)
        body = damage(rng, make_request(api, rng, "tiny", None).body)
        refusal = refusal_of(api, body)
        if refusal is None:
            continue
        refused += 1
        assert is_path(refusal.param or "", body), (refusal.param, body)
        if api == Api.MESSAGES:
            check_error(PARSERS[api].error(refusal, "req_1"))
    assert count / 4 < refused < count


# --- hostile calls ---


def test_all_families_come_with_both_adapters_and_can_be_limited():
    drawn = [hostile_calls.settings(seed) for seed in range(2 * len(hostile_calls.FAMILIES))]
    assert len(set(drawn)) == len(drawn)
    assert {family for family, _ in drawn} == {n for n, each in DIALECTS.items() if each.calls}
    wanted = hostile_calls.FAMILIES[3], hostile_calls.FAMILIES[1]
    seeds = [*islice(hostile_calls.seeds_of(wanted, first=2), 4)]
    assert seeds[0] >= 2
    assert len({hostile_calls.settings(seed) for seed in seeds}) == 4
    assert {hostile_calls.settings(seed)[0] for seed in seeds} == {*wanted}


@pytest.mark.parametrize("api", Api)
def test_hostile_requests_are_repeated_exactly(api):
    bodies = []
    for _ in range(2):
        rng = Random(1)
        sets = [tool_set(at, rng) for at in range(20)]
        cases = [(make_case(rng, offered, "m", {"1": 2.0}), later) for offered, later in sets]
        bodies.append([body_of(api, case, later) for case, later in cases])
    assert bodies[0] == bodies[1]
    assert len({json.dumps(body) for body in bodies[0]}) == 20
    found = [tool_set(at, Random(at), found=True) for at in range(20)]
    assert all(later and len(offered) > 1 for offered, later in found)


# --- outcomes ---

OUTCOMES = [Outcome(seed, 1.5, {"steps": "40"}, Counter({"walks": 12})) for seed in (3, 5)]
OUTCOMES[0].violations.append("qwen3: wrong")


def test_a_run_goes_on_from_its_file_and_reports_all(tmp_path, capsys):
    file = tmp_path / "outcomes"
    for each in OUTCOMES:
        Runs(file).add(each)
    runs = Runs(file, steps="40")
    assert runs.done == {each.seed: each for each in OUTCOMES}
    assert [*runs.missing(range(6))] == [0, 1, 2, 4]
    assert Runs(file, steps="50").done == Runs(tmp_path / "none").done == {}
    assert runs.report("seeds") == 1
    page = capsys.readouterr().out
    assert "| walks | 24 |" in page
    assert "Violations: 1\nseed 3: qwen3: wrong\n" in page
