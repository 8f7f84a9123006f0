"""What MCP servers send: too much is an error that the model or the client sees, many parts are one
text before anything copies them, and each text and each tool reaches the model."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger

from tests.support.litellm.mcp import LOOKUP, serving
from tests.support.litellm.own_route import Gateway, Response
from tests.support.servers.mcp_http import HttpShop, running
from tests.support.servers.mcp_shop import TOOLS
from tests.support.servers.script import Script, call
from tests.support.waiting import until
from toolgate_proxy.litellm_host import mcp

SHOP = {
    "type": "mcp",
    "server_label": "shop",
    "server_url": "litellm_proxy/mcp/shop",
    "require_approval": "never",
}
BOUND, MORE = 100_000, 200_000
VALUES, MOST = 1_000, 9
LONGEST_TURN = 0.25
"""Seconds of processor time."""


@pytest.fixture
async def http_shop(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[HttpShop]:
    for name, bound in (("MAX_BYTES", BOUND), ("MAX_VALUES", VALUES), ("MAX_TOOLS", MOST)):
        monkeypatch.setattr(mcp, name, bound)
    with running() as shop:
        async with serving(shop={"url": shop.url, "transport": "http"}):
            await until(lambda: shop.sent("x").get("tools/list"))
            yield shop


async def ask(gateway: Gateway, name: str = LOOKUP, **entry: Any) -> Response:
    gateway.backend.turns = [Script((call(name, {"id": 7}),)), Script(("It is record 7.",))]
    body = {"model": "tiny", "input": "Which record is it?", "tools": [{**SHOP, **entry}]}
    return await gateway.ask(body, path="/v1/responses")


def listed(*names: str, **more: Any) -> dict[str, Any]:
    return {"tools": [{**TOOLS[0], "name": name, **more} for name in names]}


def parts(number: int) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": f"part {at}"} for at in range(number)]}


@pytest.mark.parametrize(
    ("padding", "result", "bound"),
    [(MORE, parts(1), f"{BOUND:,} bytes"), (0, parts(VALUES), f"{VALUES:,} JSON values")],
)
async def test_a_result_that_is_too_large_is_an_error_that_the_model_sees(
    gateway: Gateway, http_shop: HttpShop, padding: int, result: dict[str, Any], bound: str
) -> None:
    http_shop.padding["tools/call"], http_shop.results["tools/call"] = padding, result
    response = await ask(gateway)
    assert response.status == 200, response.bodies
    _, made, said = response.json["output"]
    assert f"more than {bound}" in str(made["error"])
    assert f"more than {bound}" in gateway.backend.messages()[-1]["content"]
    assert said["content"][0]["text"] == "It is record 7."


@pytest.mark.parametrize(
    ("changes", "bound"),
    [
        ({"padding": {"tools/list": MORE}}, "bytes"),
        ({"results": {"tools/list": listed("x", description=["[]"] * VALUES)}}, "JSON values"),
        ({"results": {"tools/list": listed(*map(str, range(MOST + 1)))}}, "tools"),
    ],
)
async def test_a_list_that_is_too_large_is_an_error_of_the_list(
    gateway: Gateway, http_shop: HttpShop, changes: dict[str, dict[str, Any]], bound: str
) -> None:
    for name, values in changes.items():
        getattr(http_shop, name).update(values)
    gateway.backend.turns = [Script(("No record.",))]
    body = {"model": "tiny", "input": "Which record is it?", "tools": [SHOP]}
    response = await gateway.ask(body, path="/v1/responses")
    assert response.status == 200, response.bodies
    item = response.json["output"][0]
    assert (item["type"], item["tools"]) == ("mcp_list_tools", [])
    assert "more than " in item["error"]
    assert item["error"].endswith(f"{bound}.")


class Hook(CustomLogger):  # type: ignore[misc]
    """Notes the parts of results that it gets."""

    def __init__(self) -> None:
        self.parts: list[int] = []

    async def async_post_mcp_tool_call_hook(self, response_obj: Any, **_: Any) -> None:
        self.parts.append(len(response_obj.mcp_tool_call_response))


@contextmanager
def turns() -> Iterator[list[float]]:
    """Provide the processor times of the event loop between two turns of a task."""
    found: list[float] = []
    gc.freeze()  # the objects of earlier tests: a collection would take longer than a turn may

    async def note() -> None:
        while True:
            began = time.thread_time()
            await asyncio.sleep(0)
            found.append(time.thread_time() - began)

    task = asyncio.create_task(note())
    try:
        yield found
    finally:
        task.cancel()


async def test_many_parts_are_one_text_before_they_are_copied(
    gateway: Gateway, http_shop: HttpShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mcp, "MAX_VALUES", 70_000)
    monkeypatch.setattr(mcp, "MAX_BYTES", 16_000_000)
    monkeypatch.setattr(litellm, "success_callback", [hook := Hook()])
    http_shop.results["tools/call"] = parts(20_000)
    await ask(gateway)  # the first one loads what is loaded lazily
    with turns() as found:
        made = (await ask(gateway)).json["output"][1]
    assert hook.parts == [1, 1]
    assert made["output"].startswith("part 0\npart 1\npart 2\n")
    assert gateway.backend.messages()[-1]["content"] == made["output"]
    assert max(found) < LONGEST_TURN


async def test_a_list_at_the_bound_does_not_hold_up_others(
    gateway: Gateway, http_shop: HttpShop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, bound in (("MAX_VALUES", 70_000), ("MAX_BYTES", 16_000_000), ("MAX_TOOLS", 800)):
        monkeypatch.setattr(mcp, name, bound)
    schema = {"type": "object", "properties": {str(at): {"type": "string"} for at in range(10)}}
    many = listed("lookup", *map(str, range(799)), inputSchema=schema)
    await ask(gateway)
    http_shop.results["tools/list"] = many
    with turns() as found:
        response = await ask(gateway)
    assert response.status == 400, "the backend of the tests enforces fewer tools"
    assert max(found) < LONGEST_TURN


LINK = {"type": "resource_link", "uri": "file:///7", "name": "seven", "description": "Record 7."}
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a\nb"),
        (
            {"content": [{"type": "resource", "resource": {"uri": "file:///7", "text": "Seven."}}]},
            "Seven.",
        ),
        ({"content": [LINK]}, "[resource_link] seven Record 7. file:///7"),
        ({"content": [], "structuredContent": {"größe": [7]}}, '{"größe": [7]}'),
        (
            {"content": [IMAGE], "structuredContent": {"a": 7}},
            '[image] image/png\n{"a": 7}',
        ),
        ({"content": [{"type": "text", "text": "a"}], "structuredContent": {"a": 7}}, "a"),
    ],
)
async def test_each_text_of_a_result_reaches_the_model(
    gateway: Gateway, http_shop: HttpShop, result: dict[str, Any], shown: str
) -> None:
    http_shop.results["tools/call"] = result
    made = (await ask(gateway)).json["output"][1]
    assert (made["output"], made["error"]) == (shown, None)
    assert gateway.backend.messages()[-1]["content"] == shown


@pytest.mark.parametrize("allowed", [None, ["get/it"], ["shop-get/it"], ["shop-get_it_"]])
async def test_a_tool_whose_name_the_model_can_not_use_gets_another_one(
    gateway: Gateway, http_shop: HttpShop, allowed: list[str] | None
) -> None:
    http_shop.results["tools/list"] = listed("get/it", "get_it", "größe", "x" * 200)
    response = await ask(gateway, "shop-get_it_", allowed_tools=allowed)
    assert response.status == 200, response.bodies
    shown, made, _ = response.json["output"]
    names = [tool["name"] for tool in shown["tools"]]
    long = f"shop-{'x' * 200}"[:100]
    expected = ["shop-get_it_", "shop-get_it", "shop-gr__e", long]
    assert names == (expected[:1] if allowed else expected)
    assert (made["name"], made["output"]) == ("shop-get_it_", "Found record 7.")
    assert http_shop.called == ["get/it"]


async def test_a_result_within_the_bound_is_read(gateway: Gateway, http_shop: HttpShop) -> None:
    http_shop.padding["tools/call"] = BOUND // 2
    made = (await ask(gateway)).json["output"][1]
    assert (made["output"], made["error"]) == ("Found record 7.", None)
