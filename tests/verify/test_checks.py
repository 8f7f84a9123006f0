"""Each check passes with a server that keeps its rule, and fails with one that breaks it."""

import asyncio
from functools import cache

import pytest

from tests.support.effort import SAMPLE, repeats
from tests.verify.faults.changes import Fault
from tests.verify.faults.table import fault_of
from tests.verify.harness import answering, client_of, run_without_a_fault, verify
from tests.verify.reference_server.app import ReferenceServer
from toolgate_verify.checks import all_checks
from toolgate_verify.engine.run import run
from toolgate_verify.terms import Verdict

CHECKS = all_checks()
SPECIFIC = 0.8
"""Share of faults that fail no other check of their scenario."""


BY_ID = {check.id: check for check in CHECKS}


@cache
def with_fault(check_id):
    """The results of all checks of the scenario, with the fault of one."""
    check = BY_ID[check_id]
    others = [each for each in CHECKS if each.scenario.name == check.scenario.name]
    return asyncio.run(verify(others, fault_of(check), check.scenario.name))


def test_every_check_passes_without_a_fault():
    results = run_without_a_fault()[0].results
    assert len(results) == len(CHECKS)
    wrong = [(r.check.id, r.verdict, r.message) for r in results if r.verdict != Verdict.PASS]
    assert not wrong


def test_every_check_has_a_fault():
    assert not [check.id for check in CHECKS if fault_of(check) is None]


PART = repeats(6, nightly=1)
"""Of the faults, one in so many is tried, by the commit."""
CHOSEN = CHECKS[SAMPLE % PART :: PART]


@pytest.mark.parametrize("check", CHOSEN, ids=lambda check: check.id)
def test_a_fault_fails_its_check(check):
    [result] = [each for each in with_fault(check.id).results if each.check.id == check.id]
    assert result.verdict == Verdict.FAIL
    assert result.message
    assert result.exchange is not None


def test_most_faults_fail_no_other_check():
    """Some rules imply others: text that differs between two forms also has another length."""
    alone = 0
    for check in CHOSEN:
        failed = [r.check.id for r in with_fault(check.id).results if r.verdict == Verdict.FAIL]
        alone += failed == [check.id]
    assert alone / len(CHOSEN) >= SPECIFIC


def test_ids_and_scenarios_are_unique():
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    by_name = {}
    for check in CHECKS:
        same = by_name.setdefault(check.scenario.name, check.scenario.requests)
        assert same == check.scenario.requests, check.scenario.name


CHECKS_CUT_CALLS = [check for check in all_checks() if check.scenario.name.endswith(".cut")]


async def result(check, fault=None):
    server = ReferenceServer(fault, check.scenario.name)
    refuses = answering(400, b'{"error": {"message": "No call fits the limit."}}')

    async def careful(scope, receive, send):
        message = await receive()
        if "minLength" in message["body"].decode():
            await refuses(scope, receive, send)
            return

        async def again():
            return message

        await server(scope, again, send)

    return (await run(client_of(careful), [check])).results[0]


@pytest.mark.parametrize("check", CHECKS_CUT_CALLS, ids=lambda check: check.id)
async def test_the_second_request_is_judged(check):
    assert (await result(check)).verdict == Verdict.PASS
    found = await result(check, fault_of(check))
    assert found.verdict == Verdict.FAIL
    assert found.exchange is not None
    assert "save_text" in found.exchange.request.content


@pytest.mark.parametrize("check", CHECKS_CUT_CALLS, ids=lambda check: check.id)
async def test_short_calls_show_nothing(check):
    def brief(made, _):
        made.calls[0].text, made.calls[0].complete = '{"text": "Brief."}', True
        made.finish, made.completion_tokens = "calls", 9

    found = await result(check, Fault(reply=brief))
    assert found.verdict == Verdict.SKIP


def test_all_apis_have_such_checks():
    assert {check.api for check in CHECKS_CUT_CALLS} == {"chat", "responses", "messages"}
