"""Cut calls of a server that refuses limits in which no call fits: a second request shows them."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.verify.faults.fault import Fault
from tests.verify.faults.table import fault_of
from tests.verify.reference_server.app import KEY, MODEL, ReferenceServer
from tests.verify.reference_server.reply import Reply
from tests.verify.transport import InProcess
from toolgate_verify.check import Check
from toolgate_verify.checks import all_checks
from toolgate_verify.engine.client import Client
from toolgate_verify.engine.run import Result, run
from toolgate_verify.engine.target import Target
from toolgate_verify.terms import Verdict

CHECKS = [check for check in all_checks() if check.scenario.name.endswith(".cut")]


async def result(check: Check, fault: Fault | None = None) -> Result:
    server = ReferenceServer(fault, check.scenario.name)

    async def careful(scope: Any, receive: Any, send: Any) -> None:
        message = await receive()
        if "minLength" in message["body"].decode():
            headers = [(b"content-type", b"application/json")]
            error = {"error": {"message": "No call fits the limit."}}
            await send({"type": "http.response.start", "status": 400, "headers": headers})
            await send({"type": "http.response.body", "body": json.dumps(error).encode()})
            return

        async def again() -> Any:
            return message

        await server(scope, again, send)

    async with httpx.AsyncClient(transport=InProcess(careful)) as http:
        made = await run(Client(Target("http://reference/v1", MODEL, KEY), http), [check])
    return made.results[0]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
async def test_the_second_request_is_judged(check: Check) -> None:
    assert (await result(check)).verdict == Verdict.PASS
    found = await result(check, fault_of(check))
    assert found.verdict == Verdict.FAIL
    assert found.exchange is not None
    assert "save_text" in found.exchange.request.content


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.id)
async def test_short_calls_show_nothing(check: Check) -> None:
    def brief(made: Reply, _: Any) -> None:
        made.calls[0].text, made.calls[0].complete = '{"text": "Brief."}', True
        made.finish, made.completion_tokens = "calls", 9

    found = await result(check, Fault(reply=brief))
    assert found.verdict == Verdict.SKIP


def test_all_apis_have_such_checks() -> None:
    assert {check.api for check in CHECKS} == {"chat", "responses", "messages"}
