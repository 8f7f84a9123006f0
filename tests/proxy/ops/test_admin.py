"""The administrator's part: who may call its routes, prewarming, and where a response without
enforcement breaks its request."""

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from litellm.proxy._types import LitellmUserRoles, UserAPIKeyAuth
from litellm.proxy.auth.user_api_key_auth import user_api_key_auth

from tests.support.grammars.prewarm_tools import entry
from tests.support.servers.fake_backend import KEY
from tests.support.servers.script import call
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.tools import parse_tools
from toolgate_proxy.ops.admin.judgement import judge
from toolgate_proxy.ops.admin.routes import report_by_backends, router
from toolgate_proxy.request.chat_request import ChatRequest
from toolgate_proxy.request.plan import make_plan
from toolgate_proxy.routing.deployments import Deployments, Placement
from toolgate_proxy.settings import Settings
from toolgate_proxy.validation.service import ValidationService

QWEN3 = DIALECTS["qwen3"]
ROUTES = [route for route in router.routes if isinstance(route, APIRoute)]
SCHEMA = {
    "type": "object",
    "properties": {"due": {"type": "string", "format": "date-time"}, "n": {"type": "integer"}},
    "required": ["due"],
    "additionalProperties": False,
}
TOOLS = parse_tools(
    [
        {"type": "function", "function": {"name": name, "parameters": SCHEMA}}
        for name in ("plan", "drop")
    ]
)
DUE = "2026-01-31T12:00:00Z"
GOOD = call("plan", {"due": DUE})


@pytest.mark.parametrize("role", [each for each in LitellmUserRoles if each != "proxy_admin"])
async def test_only_administrators_of_litellm_are_answered(role):
    """Another authentication than Toolgate's may let any role reach these routes."""
    app = FastAPI()
    app.include_router(router)
    app.dependency_overrides[user_api_key_auth] = lambda: UserAPIKeyAuth(user_role=role)
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as someone:
        for route in ROUTES:
            for method in route.methods:
                answer = await someone.request(method, route.path, json={"tools": []})
                assert answer.status_code == 403, route.path
                assert answer.json()["error"]["code"] == "permission_denied"
    assert len(ROUTES) > 5


async def judged(text, finish_reason="stop", **changes):
    choice = {"tool_choice": "auto", **changes}
    request = ChatRequest(request_id="r", model="tiny", messages=(), tools=TOOLS, **choice)
    plan = make_plan(request, QWEN3)
    return await judge(text, finish_reason, TOOLS, plan, QWEN3, ValidationService())


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        f"{GOOD}\n{GOOD}",
        f"<think>Which day?</think>\n{GOOD}",
        f"Which day?</think>\n{GOOD}",
        "No call is needed.",
    ],
)
async def test_nothing_is_broken(text):
    found = await judged(text)
    assert (found.breaks, found.calls) == ([], text.count("<tool_call>"))


@pytest.mark.parametrize(
    ("arguments", "pointer", "keyword", "marked", "demanded"),
    [
        ({"due": "tomorrow"}, "/due", "format", '"tomorrow"', '"date-time"'),
        ({"due": DUE, "n": "3"}, "/n", "type", '"3"', '"integer"'),
        ({"n": 3}, "", "required", '{"n": 3}', '["due"]'),
    ],
)
async def test_the_value_that_violates_its_schema_is_marked_with_what_is_allowed(
    arguments, pointer, keyword, marked, demanded
):
    text = f"🙂 {GOOD}\n{call('plan', arguments)}"
    found = await judged(text)
    [broken] = found.breaks
    assert (found.calls, broken.pointer, broken.keyword) == (2, pointer, keyword)
    units = text.encode("utf-16-le")[2 * broken.begin : 2 * broken.end].decode("utf-16-le")
    assert units == marked
    assert broken.message.endswith(f"`{keyword}`, which is {demanded}.")


@pytest.mark.parametrize(
    ("text", "begin"),
    [
        (call("plan", '{"due": tomorrow}'), "tomorrow}"),
        (GOOD.replace("plan", "fly"), '", "arguments"'),
    ],
)
async def test_text_that_leaves_the_dialect_is_marked_to_its_end(text, begin):
    [broken] = (await judged(text)).breaks
    assert text[broken.begin : broken.end].startswith(begin) or broken.begin >= text.index("fly")
    assert broken.end == len(text)
    assert broken.message


@pytest.mark.parametrize(
    ("text", "changes", "words"),
    [
        ("Sure!", {"tool_choice": "required"}, "requires one"),
        (GOOD, {"tool_choice": "none"}, "allows none"),
        (f"{GOOD}\n{GOOD}", {"parallel_tool_calls": False}, "allows one call"),
    ],
)
async def test_a_response_that_ignores_the_tool_choice_is_broken(text, changes, words):
    [broken] = (await judged(text, **changes)).breaks
    assert words in broken.message


async def test_a_response_that_was_cut_is_not_broken_by_its_end():
    found = await judged(GOOD[: GOOD.index("12:00")], "length")
    assert (found.cut, found.breaks) == (True, [])


async def test_prewarm_refuses_schemas_over_the_limits(backend):
    place = Deployments(Settings()).at(Placement("", backend.url, KEY))
    wide = entry("wide", properties={f"a{at}": {} for at in range(5_001)})
    [report] = await report_by_backends([place], [wide], Settings())
    [found] = report.tools
    assert (found.name, found.status, found.code) == (
        "wide", "refused", "schema_too_complex",
    )  # fmt: skip
    assert not backend.loads
