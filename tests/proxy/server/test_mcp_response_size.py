"""What MCP servers send: too much is an error that the model or the client sees, many parts are one
text before anything copies them, and each text and each tool reaches the model."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import litellm
import pytest
from litellm.integrations.custom_logger import CustomLogger

from tests.proxy.server import kit
from tests.proxy.server.kit import Json, Reply
from tests.support.litellm.mcp import LOOKUP, serving
from tests.support.litellm.own_route import Gateway
from tests.support.servers.mcp_http import running
from tests.support.servers.mcp_shop import TOOLS
from tests.support.servers.script import call
from tests.support.waiting import until
from toolgate_proxy.litellm_host import mcp

URL = "litellm_proxy/mcp/shop"
ENTRY = {"type": "mcp", "server_label": "s", "server_url": URL, "require_approval": "never"}
SAID = "It is record 7."
BOUND, MORE = 100_000, 200_000
VALUES, MOST = 1_000, 9
LONGEST_TURN = 0.25
"""Seconds of processor time."""


@pytest.fixture
async def shop(monkeypatch):
    for name, bound in (("MAX_BYTES", BOUND), ("MAX_VALUES", VALUES), ("MAX_TOOLS", MOST)):
        monkeypatch.setattr(mcp, name, bound)
    with running() as shop:
        async with serving(shop={"url": shop.url, "transport": "http"}):
            await until(lambda: shop.sent("x").get("tools/list"))
            yield shop


async def ask(gateway: Gateway, name: str = LOOKUP, **entry: Any) -> Reply:
    tools = [{**ENTRY, **entry}]
    return await kit.ask(gateway, "responses", call(name, {"id": 7}), SAID, tools=tools)


def listed(*names: str, **more: Any) -> Json:
    return {"tools": [{**TOOLS[0], "name": name, **more} for name in names]}


def parts(number: int) -> Json:
    return {"content": [{"type": "text", "text": f"part {at}"} for at in range(number)]}


@pytest.mark.parametrize(
    ("padding", "result", "bound"),
    [(MORE, parts(1), f"{BOUND:,} bytes"), (0, parts(VALUES), f"{VALUES:,} JSON values")],
)
async def test_a_result_that_is_too_large_is_an_error_that_the_model_sees(
    gateway, shop, padding, result, bound
):
    shop.padding["tools/call"], shop.results["tools/call"] = padding, result
    reply = await ask(gateway)
    [made] = reply.ran
    assert (made.failed, reply.text) == (True, SAID)
    assert f"more than {bound}" in made.result
    assert f"more than {bound}" in gateway.backend.messages()[-1]["content"]


@pytest.mark.parametrize(
    ("changes", "bound"),
    [
        ({"padding": {"tools/list": MORE}}, "bytes"),
        ({"results": {"tools/list": listed("x", description=["[]"] * VALUES)}}, "JSON values"),
        ({"results": {"tools/list": listed(*map(str, range(MOST + 1)))}}, "tools"),
    ],
)
async def test_a_list_that_is_too_large_is_an_error_of_the_list(gateway, shop, changes, bound):
    for name, values in changes.items():
        getattr(shop, name).update(values)
    reply = await kit.ask(gateway, "responses", "No record.", tools=[ENTRY])
    item = reply.parts[0]
    assert (item["type"], item["tools"]) == ("mcp_list_tools", [])
    assert "more than " in item["error"]
    assert item["error"].endswith(f"{bound}.")


class Hook(CustomLogger):
    """Notes the parts of results that it gets."""

    def __init__(self) -> None:
        self.parts: list[int] = []

    async def async_post_mcp_tool_call_hook(self, response_obj, **_):
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


@pytest.fixture
def usual_bounds(shop, monkeypatch):
    del shop
    for name, bound in (("MAX_VALUES", 70_000), ("MAX_BYTES", 16_000_000), ("MAX_TOOLS", 800)):
        monkeypatch.setattr(mcp, name, bound)


@pytest.mark.usefixtures("usual_bounds")
async def test_many_parts_are_one_text_before_they_are_copied(gateway, shop, monkeypatch):
    monkeypatch.setattr(litellm, "success_callback", [hook := Hook()])
    shop.results["tools/call"] = parts(20_000)
    await ask(gateway)  # the first one loads what is loaded lazily
    with turns() as found:
        [made] = (await ask(gateway)).ran
    assert hook.parts == [1, 1]
    assert made.result.startswith("part 0\npart 1\npart 2\n")
    assert gateway.backend.messages()[-1]["content"] == made.result
    assert max(found) < LONGEST_TURN


@pytest.mark.usefixtures("usual_bounds")
async def test_a_list_at_the_bound_does_not_hold_up_others(gateway, shop):
    schema = {"type": "object", "properties": {str(at): {"type": "string"} for at in range(10)}}
    many = listed("lookup", *map(str, range(799)), inputSchema=schema)
    await ask(gateway)
    shop.results["tools/list"] = many
    with turns() as found:
        reply = await ask(gateway)
    assert reply.status == 400, "the backend of the tests enforces fewer tools"
    assert max(found) < LONGEST_TURN


TEXT = {"type": "text", "text": "a"}
LINK = {"type": "resource_link", "uri": "file:///7", "name": "seven", "description": "Record 7."}
IMAGE = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
RESOURCE = {"type": "resource", "resource": {"uri": "file:///7", "text": "Seven."}}
RESULTS = [
    ({"content": [TEXT, TEXT | {"text": "b"}]}, "a\nb"),
    ({"content": [TEXT | {"text": "a" * (BOUND // 2)}]}, "a" * (BOUND // 2)),
    ({"content": [RESOURCE]}, "Seven."),
    ({"content": [LINK]}, "[resource_link] seven Record 7. file:///7"),
    ({"content": [], "structuredContent": {"größe": [7]}}, '{"größe": [7]}'),
    ({"content": [IMAGE], "structuredContent": {"a": 7}}, '[image] image/png\n{"a": 7}'),
    ({"content": [TEXT], "structuredContent": {"a": 7}}, "a"),
]


async def test_each_text_of_a_result_reaches_the_model(gateway, shop):
    for result, shown in RESULTS:
        shop.results["tools/call"] = result
        [made] = (await ask(gateway)).ran
        assert (made.result, made.failed) == (shown, False)
        assert gateway.backend.messages()[-1]["content"] == shown


async def test_a_tool_whose_name_the_model_can_not_use_gets_another_one(gateway, shop):
    shop.results["tools/list"] = listed("get/it", "get_it", "größe", "x" * 200)
    expected = ["shop-get_it_", "shop-get_it", "shop-gr__e", f"shop-{'x' * 200}"[:100]]
    for allowed in (None, ["get/it"], ["shop-get/it"], ["shop-get_it_"]):
        reply = await ask(gateway, "shop-get_it_", allowed_tools=allowed)
        assert reply.listed == (expected[:1] if allowed else expected)
        [made] = reply.ran
        assert (made.name, made.result) == ("shop-get_it_", "Found record 7.")
    assert shop.called == ["get/it"] * 4
