"""The page in headless Chromium, with a scripted backend."""

import asyncio
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from typer.testing import CliRunner

from tests.support.agents.client_packages import client_python, node_folder
from tests.support.browser.chromium import (
    NARROW,
    QUESTION,
    WEATHER,
    WIDE,
    chromium,
    expect,
    opened,
    sign_in,
    view,
    violations,
)
from tests.support.effort import by_turns, rotating
from tests.support.servers.fake_backend import WITHOUT_MASKS
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.script import Script, call
from tests.support.servers.virtual_keys import make_key
from toolgate_core.wire import ResidualKeyword
from toolgate_proxy.ops.cli import app

VIEWS = ("Status", "Playground", "Schema inspector", "Connect")
GOOD, BAD = (
    call("open_ticket", {"code": "WEB-2143", "priority": priority}) for priority in ("high", "HIGH")
)


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


@pytest.fixture
def user_key(gateway, redis_of_gateway):
    """As the fixture `key`. Playwright's event loop runs in this thread."""
    made = make_key(redis_of_gateway.url, gateway, models=("tiny",), rpm=1000)
    with ThreadPoolExecutor(1) as pool:
        sent, _ = pool.submit(asyncio.run, made).result()
    return sent


@pytest.fixture
def answering(backend):
    calls = [call("get_weather", {"city": city}) for city in ("Beijing", "Shanghai")]
    backend.scripts[WEATHER] = Script(("\n".join(calls),))
    backend.scripts[QUESTION] = Script((GOOD,))
    backend.scripts[QUESTION + WITHOUT_MASKS] = Script((f"Sure. {BAD}",))
    return backend


def tokens_of(page):
    return page.locator("#play-tokens").get_by_role("option")


def run(page):
    page.get_by_role("button", name="Run").click()
    expect(page.locator("#play-state")).to_have_text("Done.")


@rotating("size, scheme", [(WIDE, "light"), (NARROW, "dark")], one_in=2)
def test_axe_finds_no_violation(browser, gateway, answering, size, scheme):
    with opened(browser, gateway, size=size, scheme=scheme) as page:
        assert violations(page) == []  # without a key
        sign_in(page)
        for name in VIEWS:
            view(page, name)
            if name == "Status":
                expect(page.locator("#models tr").first).to_be_visible()
                page.get_by_text("The same as a table").click()
            elif name == "Playground":
                run(page)
                page.locator("#play-tokens").press("End")
            elif name == "Schema inspector":
                expect(page.locator("#schema-report .card").first).to_be_visible()
            assert violations(page) == [], name
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name


@by_turns(0, one_in=3)
def test_the_page_is_used_with_the_keyboard_alone(browser, gateway, answering):
    with opened(browser, gateway) as page:
        page.keyboard.press("Tab")
        expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
        for name in VIEWS:
            page.keyboard.press("Tab")
            expect(page.get_by_role("link", name=name, exact=True)).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.type(MASTER_KEY)
        page.keyboard.press("Enter")
        expect(page.locator("#models tr").first).to_be_visible()
        page.get_by_role("link", name="Playground").focus()
        page.keyboard.press("Enter")
        expect(page.locator("#main")).to_be_focused()
        page.locator("#play-max").focus()
        page.keyboard.press("Enter")  # sends the form
        expect(page.locator("#play-state")).to_have_text("Done.")
        tokens = page.locator("#play-tokens")
        tokens.focus()
        page.keyboard.press("ArrowRight")
        first = tokens_of(page).first
        expect(first).to_have_attribute("aria-selected", "true")
        described = page.locator("#play-token")
        expect(described).to_contain_text('"<tool_call>"')
        expect(described).to_contain_text("forced, 1 token allowed")
        page.keyboard.press("End")
        expect(described).to_contain_text("<|im_end|>")
        expect(first).to_have_attribute("aria-selected", "false")


def test_the_key_is_kept_in_the_tab_only(browser, gateway, user_key):
    """The first screen says where the master key is. The status names models and what is up."""
    with opened(browser, gateway) as page:
        where = page.locator("#key-where")
        expect(where).to_contain_text("TOOLGATE_MASTER_KEY")
        expect(where).to_contain_text("cat ~/.config/toolgate/master_key")
        sign_in(page)
        rows = page.locator("#models tr")
        expect(rows).to_have_count(2)
        expect(where).to_be_hidden()
        tiny, down = (rows.filter(has_text=name) for name in ("● up", "✕ down"))
        expect(tiny).to_contain_text("tiny")
        expect(tiny).to_contain_text("qwen3")
        expect(down).to_contain_text("connection failed")
        expect(page.locator("#tiles")).to_contain_text("1 of 2")
        expect(page.locator("#keys")).to_contain_text("rpm: 1,000")
        assert page.evaluate("Object.values(sessionStorage)") == [MASTER_KEY]
        assert page.evaluate("Object.values(localStorage).length + document.cookie.length") == 0
        assert MASTER_KEY not in page.content()
        assert user_key not in page.content()
        page.reload()
        expect(rows.first).to_be_visible()
        page.get_by_role("button", name="Forget").click()
        expect(page.locator("#status-content")).to_be_hidden()
        assert page.evaluate("sessionStorage.length") == 0
    with opened(browser, gateway) as page:
        expect(page.locator("#status-notice")).to_contain_text("Enter the master key")


@by_turns(1, one_in=3)
def test_another_view_is_the_status(browser, gateway):
    for name in ("constructor", "__proto__", "toString", "nothing"):
        with opened(browser, f"{gateway}/#{name}") as page:  # fails if the page reports an error
            expect(page.get_by_role("heading", name="Status", level=1)).to_be_visible()
            status = page.get_by_role("link", name="Status", exact=True)
            expect(status).to_have_attribute("aria-current", "page")


@rotating("size", [WIDE, NARROW], one_in=2)
def test_the_charts_text_keeps_its_size_and_a_request_can_be_run_from_its_first_field(
    browser, gateway, answering, size
):
    with opened(browser, gateway, size=size) as page:
        sign_in(page)
        text = page.locator("svg.chart text").first
        expect(text).to_be_visible()
        assert 8 < text.bounding_box()["height"] < 20
        for each in ("requests per minute", "refused or failed", "first token"):
            expect(page.locator("#status .legend")).to_contain_text(each)
        view(page, "Playground")
        page.locator("#play-messages").focus()
        expect(page.get_by_role("button", name="Run")).to_be_in_viewport(ratio=1)
        run(page)
        expect(page.locator("#enforced-title")).to_be_in_viewport()


@by_turns(2, one_in=3)
def test_the_status_has_other_providers_and_says_where_the_keys_of_the_database_are(
    browser, gateway
):
    def in_database_mode(route):
        response = route.fetch()
        more = {"database": True, "keys": 0, "others": {"gpt-4o": ["openai/gpt-4o"]}}
        route.fulfill(response=response, json=response.json() | more)

    with opened(browser, gateway) as page:
        page.route("**/toolgate/status", in_database_mode)
        page.route("**/toolgate/keys", lambda route: route.fulfill(json={"keys": []}))
        sign_in(page)
        expect(page.locator("#others")).to_have_text("gpt-4oopenai/gpt-4o")
        expect(page.locator("#tiles")).to_contain_text("in LiteLLM's database")
        expect(page.locator("#tiles")).to_contain_text("for all gateways together")
        expect(page.locator("#keys-note")).to_have_text("")
        expect(page.locator("#litellm-ui")).to_be_visible()


@by_turns(0, one_in=3)
def test_another_key_sees_no_status_and_may_use_the_playground(
    browser, gateway, user_key, answering
):
    with opened(browser, gateway) as page:
        sign_in(page, user_key)
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        expect(page.locator("#status-notice")).to_contain_text("not the master key")
        page.wait_for_timeout(3500)
        assert asked == []  # the page does not ask again
        view(page, "Playground")
        tool = {"type": "function", "function": {"name": "open_ticket", "parameters": {}}}
        page.locator("#play-tools").fill(json.dumps([tool]))
        page.get_by_label("Token trace").uncheck()
        run(page)
        expect(page.locator("#play-message")).to_contain_text('"priority": "high"')
        expect(page.locator("#play-verdict")).to_contain_text("needs the master key")


@by_turns(1, one_in=3)
def test_a_wrong_key_is_reported(browser, gateway):
    with opened(browser, gateway) as page:
        asked = []
        page.on(
            "request",
            lambda request: asked.append(request.url)
            if "authorization" in request.headers
            else None,
        )
        sign_in(page, "sk-wrong")
        expect(page.locator("#key-state")).to_contain_text("Incorrect API key")
        expect(page.locator("#status-notice")).to_contain_text("Incorrect API key")
        view(page, "Schema inspector")
        expect(page.locator("#schema-state")).to_contain_text("Incorrect API key")
        view(page, "Playground")
        page.get_by_role("button", name="Run").click()
        expect(page.locator("#play-state")).to_contain_text("Incorrect API key")
        assert asked == [f"{gateway}/v1/models"]  # a wrong key is sent once
        sign_in(page)
        view(page, "Status")
        expect(page.locator("#models tr").first).to_be_visible()


@by_turns(2, one_in=3)
def test_the_playground_shows_tokens_beside_the_broken_text(browser, gateway, answering):
    with opened(browser, gateway) as page:
        sign_in(page)
        view(page, "Playground")
        run(page)
        message = page.locator("#play-message")
        expect(message).to_contain_text('{"code": "WEB-2143", "priority": "high"}')
        expect(message).to_contain_text("finish_reason: tool_calls")
        expect(page.locator("#play-facts")).to_contain_text("enforced: full")
        options = tokens_of(page)
        expect(options.first).to_have_text("<tool_call>")
        expect(options.first).to_have_class(re.compile("forced"))
        assert page.locator("#play-phases span").count() == options.count() > 20
        expect(page.locator("#play-grammars")).to_contain_text("all keywords are masked")
        expect(page.locator("#play-verdict")).to_contain_text("Broken in 1 place")
        expect(page.locator("#play-raw mark")).to_have_text('"HIGH"')
        expect(page.locator("#play-breaks")).to_contain_text('["low", "medium", "high"]')
        assert answering.requests[-1].sampling.temperature == 1
        further = page.get_by_label("Further parameters")
        further.fill("{")
        page.get_by_role("button", name="Run").click()
        expect(page.locator("#play-state")).to_contain_text("Further parameters:")
        expect(page.locator("#play-results")).to_be_hidden()  # it is of the previous request
        further.fill('{"n": 0}')
        page.get_by_role("button", name="Run").click()
        expect(page.locator("#play-state")).to_contain_text("'n'")


@by_turns(0, one_in=3)
def test_a_response_that_is_stopped_says_so(browser, gateway, backend):
    slow = Script((call("open_ticket", {"code": "x" * 300}),), pause=0.2)
    backend.scripts[QUESTION] = backend.scripts[QUESTION + WITHOUT_MASKS] = slow
    with opened(browser, gateway) as page:
        sign_in(page)
        view(page, "Playground")
        page.get_by_role("button", name="Run").click()
        expect(tokens_of(page).first).to_be_visible()
        page.get_by_role("button", name="Stop").click()
        expect(page.locator("#play-state")).to_have_text("Stopped.")
        expect(page.get_by_role("button", name="Run")).to_be_enabled()


def test_what_a_model_writes_is_no_markup(browser, gateway, backend):
    attack = "<img src=x onerror=alert(1)><script>alert(1)</script>"
    backend.scripts[QUESTION] = Script((call("open_ticket", {"code": attack}),))
    backend.scripts[QUESTION + WITHOUT_MASKS] = Script((attack,))
    with opened(browser, gateway) as page:
        sign_in(page)
        view(page, "Playground")
        page.locator("#play-tools").fill('{"name": "open_ticket", "inputSchema": {}}')
        run(page)
        expect(page.locator("#play-message")).to_contain_text("onerror")
        expect(page.locator("#play-raw")).to_contain_text(attack)
        assert page.locator("main img, main script").count() == 0


@by_turns(1, one_in=3)
def test_the_inspector_reports_while_one_types(browser, gateway, backend):
    backend.residual["book"] = (ResidualKeyword(pointer="/properties/tags", keyword="uniqueItems"),)
    with opened(browser, gateway) as page:
        sign_in(page)
        view(page, "Schema inspector")
        tools, report = page.locator("#schema-tools"), page.locator("#schema-report")
        expect(report).to_contain_text("book_table")
        tools.fill('[{"name": "look", "inputSchema": {"type": "object"}}')
        expect(page.locator("#schema-state")).to_contain_text("Not JSON")
        expect(report).to_be_empty()
        tools.press("End")
        tools.press_sequentially("]")
        expect(report).to_contain_text("look")
        expect(report).to_contain_text("masks enforce the whole schema")
        tools.fill('{"name": "book", "input_schema": {"type": "object"}}')
        expect(report).to_contain_text("uniqueItems at /properties/tags")
        tools.fill('{"type": "object", "properties": {"n": {"not": {}}}, "not": {}}')
        expect(report).to_contain_text("refused")
        expect(report).to_contain_text("/not")


def _in_node(snippet):
    """The folder has the packages. Node looks for them where the program is."""
    (program := node_folder() / "snippet.mjs").write_text(snippet)
    return ["node", str(program)]


COMMANDS = {
    "curl": lambda snippet: ["bash", "-c", snippet],
    "OpenAI SDK (Python)": lambda snippet: [sys.executable, "-c", snippet],
    "OpenAI SDK (JavaScript)": _in_node,
    "LangChain": lambda snippet: [str(client_python()), "-c", snippet],
    "Vercel AI SDK": _in_node,
    "OpenAI Agents SDK": lambda snippet: [str(client_python()), "-c", snippet],
    "pydantic-ai": lambda snippet: [str(client_python()), "-c", snippet],
    "Anthropic SDK (Python)": lambda snippet: [sys.executable, "-c", snippet],
}
SLOW = (
    "OpenAI SDK (Python)",
    "OpenAI SDK (JavaScript)",
    "Vercel AI SDK",
    "Anthropic SDK (Python)",
    "LangChain",
    "OpenAI Agents SDK",
    "pydantic-ai",
)
"""Their libraries start slowly. Other tests use them, too."""


@pytest.mark.parametrize(
    "title",
    [pytest.param(each, marks=pytest.mark.slow) if each in SLOW else each for each in COMMANDS],
)
def test_a_snippet_runs_as_it_is_shown_with_the_key_of_the_tab(
    browser, gateway, user_key, answering, title
):
    answering.scripts["sunny"] = Script(("It is sunny.",))
    with opened(browser, gateway) as page:
        sign_in(page, user_key)
        view(page, "Connect")
        expect(page.locator("#connect-model")).to_have_value("tiny")
        snippet = page.locator(f'[data-snippet="{title}"] code').text_content()
        page.get_by_label("Fill in the key").uncheck()
        assert user_key not in page.content()
    done = subprocess.run(
        COMMANDS[title](snippet),
        env={**os.environ, "NO_PROXY": "*"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "get_weather" in done.stdout
    assert "Shanghai" in done.stdout


AGENTS = {
    "claude": "Claude Code",
    "codex": "Codex CLI",
    "opencode": "OpenCode",
    "qwen": "Qwen Code",
    "copilot": "Copilot CLI",
}


@by_turns(2, one_in=3)
def test_the_settings_of_coding_agents_are_those_of_toolgate_launch(browser, gateway):
    with opened(browser, gateway) as page:
        sign_in(page)
        view(page, "Connect")
        shown = {
            name: page.locator(f'[data-snippet="{title}"] code').text_content()
            for name, title in AGENTS.items()
        }
    for name, snippet in shown.items():
        assert _in_shell(snippet, name) == _in_shell(_printed(gateway, name), name)


def _printed(gateway, name):
    command = ["launch", name, "--print", "--url", gateway, "--model", "tiny"]
    done = CliRunner().invoke(app, command, env={"TOOLGATE_API_KEY": MASTER_KEY, "NO_PROXY": "*"})
    assert done.exit_code == 0, done.output
    return done.stdout


def _in_shell(snippet, name):
    """The arguments and the settings that the client of a snippet gets."""
    names = "ANTHROPIC|CLAUDE|ENABLE|OPENAI|OPENCODE|COPILOT|TOOLGATE"
    show = f'{name}() {{ printf "%s\\n" "$@"; env | grep -E "^({names})" | sort; }}\n'
    done = subprocess.run(
        ["bash", "-c", show + snippet],
        env={"PATH": os.environ["PATH"], "TOOLGATE_API_KEY": MASTER_KEY, "ANTHROPIC_API_KEY": "x"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.replace(" ", "")  # JSON is written with spaces, or without
