"""Finds fields that a server does not know and that are not the subject of a check."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..asking import request
from ..asking.ask import Ask, User
from ..exchange import Exchange
from ..scenario import Scenario
from ..terms import Api
from .client import Client

OPTIONAL = {
    Api.CHAT: ("reasoning_effort",),
    Api.RESPONSES: ("reasoning", "store"),
    Api.MESSAGES: ("thinking",),
}
"""Fields that the checks send with every request: they turn reasoning off and storage off."""


async def probe(client: Client, apis: Iterable[Api]) -> dict[Api, str]:
    """Sends a short request to each API, and again without optional fields if it is refused.
    Fields that were refused are removed from all requests. Returns the APIs that do not answer,
    with the reason."""
    missing: dict[Api, str] = {}
    for api in apis:
        exchange = await _short(client, api)
        if exchange.status in (400, 422):
            client.target = replace(client.target, without=client.target.without | {*OPTIONAL[api]})
            exchange = await _short(client, api)
        if exchange.status != 200:
            missing[api] = exchange.problem or f"status {exchange.status}: {exchange.text[:300]}"
    return missing


async def _short(client: Client, api: Api) -> Exchange:
    ask = Ask((User("Hi"),), max_tokens=4)
    scenario = Scenario(f"{api}.probe", api, (request(api, ask),), ask)
    return await client.send(scenario, scenario.requests[0], at_once=True)
