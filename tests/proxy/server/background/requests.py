"""Requests of the background, and what they return."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

from tests.support.apis.read_responses import read_events
from tests.support.apis.responses_api import LOOK, check_response
from tests.support.litellm.own_route import MASTER, Gateway, Response
from tests.support.waiting import until
from toolgate_proxy.server.background.run import RUNNING, Run

PATH = "/v1/responses"
ACTIVE = ("queued", "in_progress")
OWNER = "master key"


async def ask(gateway: Gateway, given: Any = "wait", **params: Any) -> Response:
    key, leave = params.pop("key", MASTER), params.pop("leave_after", None)
    body = {"model": "tiny", "input": given, "background": True, "tools": [LOOK], **params}
    return await gateway.ask(body, path=PATH, key=key, leave_after=leave)


async def queued(gateway: Gateway, given: Any = "wait", **params: Any) -> Any:
    response = await ask(gateway, given, **params)
    assert response.status == 200, response.json
    check_response(response.json)
    shown = response.json
    assert (shown["status"], shown["background"], shown["store"]) == ("queued", True, True)
    assert (shown["output"], shown["usage"]) == ([], None)
    return shown


async def begun(gateway: Gateway) -> Any:
    """Return a response whose generation has begun."""
    shown = await queued(gateway)
    await until(lambda: gateway.backend.running)
    return shown


async def get(
    gateway: Gateway, name: str, rest: str = "", method: str = "GET", **query: Any
) -> Response:
    key, leave = query.pop("key", MASTER), query.pop("leave_after", None)
    return await gateway.ask(
        b"",
        path=f"{PATH}/{name}{rest}",
        method=method,
        key=key,
        query=urlencode(query),
        leave_after=leave,
    )


async def ended(gateway: Gateway, name: str) -> Any:
    """The response object, once it has ended."""
    async with asyncio.timeout(20):
        while True:
            found = (await get(gateway, name)).json
            if found.get("status") not in ACTIVE:
                return found
            await asyncio.sleep(0.01)


def running(name: str) -> Run:
    [run] = [run for run in RUNNING if run.turn is not None and run.turn.id == name]
    return run


def code(response: Response) -> tuple[int, str, str | None]:
    error = response.json["error"]
    return response.status, error["code"], error["param"]


def events_of(response: Response) -> list[Any]:
    return read_events(b"".join(each for each in response.bodies if not each.startswith(b":")))
