"""An MCP server that sends too much: the gateway stops reading, and the model sees an error."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.litellm.mcp import LOOKUP, serving
from tests.support.litellm.own_route import Gateway, Response
from tests.support.servers.mcp_http import HttpShop, running
from tests.support.servers.script import Script, call
from tests.support.waiting import until
from toolgate_proxy.litellm_host import mcp_patches

SHOP = {
    "type": "mcp",
    "server_label": "shop",
    "server_url": "litellm_proxy/mcp/shop",
    "require_approval": "never",
}
BOUND, MORE = 100_000, 200_000


@pytest.fixture
async def shop(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HttpShop]:
    monkeypatch.setattr(mcp_patches, "MAX_BYTES", BOUND)
    with running() as shop:
        async with serving(shop={"url": shop.url, "transport": "http"}):
            await until(lambda: shop.sent("x").get("tools/list"))
            yield shop


async def ask(gateway: Gateway) -> Response:
    gateway.backend.turns = [Script((call(LOOKUP, {"id": 7}),)), Script(("It is record 7.",))]
    body = {"model": "tiny", "input": "Which record is it?", "tools": [SHOP]}
    return await gateway.ask(body, path="/v1/responses")


async def test_a_result_that_is_too_large_is_an_error_that_the_model_sees(
    gateway: Gateway, shop: HttpShop
) -> None:
    shop.padding["tools/call"] = MORE
    response = await ask(gateway)
    assert response.status == 200, response.bodies
    _, made, said = response.json["output"]
    assert f"more than {BOUND:,} bytes" in str(made["error"])
    assert f"more than {BOUND:,} bytes" in gateway.backend.messages()[-1]["content"]
    assert said["content"][0]["text"] == "It is record 7."


async def test_a_list_that_is_too_large_is_an_error_of_the_list(
    gateway: Gateway, shop: HttpShop
) -> None:
    shop.padding["tools/list"] = MORE
    gateway.backend.turns = [Script(("No record.",))]
    body = {"model": "tiny", "input": "Which record is it?", "tools": [SHOP]}
    response = await gateway.ask(body, path="/v1/responses")
    assert response.status == 200, response.bodies
    listed = response.json["output"][0]
    assert (listed["type"], listed["tools"]) == ("mcp_list_tools", [])
    assert listed["error"]


async def test_a_result_within_the_bound_is_read(gateway: Gateway, shop: HttpShop) -> None:
    shop.padding["tools/call"] = BOUND // 2
    made = (await ask(gateway)).json["output"][1]
    assert (made["output"], made["error"]) == ("Found record 7.", None)
