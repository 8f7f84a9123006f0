"""The snippets and settings that the page shows, in headless Chromium, with a scripted backend."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.agents.client_packages import client_python, node_folder
from tests.support.browser.chromium import expect, opened, sign_in, view
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.script import Script

pytestmark = pytest.mark.parametrize("route", ["own"], indirect=True)


def _in_node(snippet: str) -> list[str]:
    """The folder has the packages. Node looks for them where the program is."""
    (program := node_folder() / "snippet.mjs").write_text(snippet)
    return ["node", str(program)]


COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "curl": lambda snippet: ["bash", "-c", snippet],
    "OpenAI SDK (Python)": lambda snippet: [sys.executable, "-c", snippet],
    "OpenAI SDK (JavaScript)": _in_node,
    "LangChain": lambda snippet: [str(client_python()), "-c", snippet],
    "Vercel AI SDK": _in_node,
    "OpenAI Agents SDK": lambda snippet: [str(client_python()), "-c", snippet],
    "pydantic-ai": lambda snippet: [str(client_python()), "-c", snippet],
    "Anthropic SDK (Python)": lambda snippet: [sys.executable, "-c", snippet],
}


SLOW = ("OpenAI SDK (JavaScript)", "LangChain", "OpenAI Agents SDK", "pydantic-ai")
"""Their libraries start slowly. Other tests use them, too."""


@pytest.mark.parametrize(
    "title",
    [pytest.param(each, marks=pytest.mark.slow) if each in SLOW else each for each in COMMANDS],
)
def test_a_snippet_runs_as_it_is_shown_with_the_key_of_the_tab(
    browser: Any, gateway: str, user_key: str, answering: FakeBackend, title: str
) -> None:
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


def test_the_settings_of_coding_agents_are_those_of_toolgate_launch(
    browser: Any, gateway: str
) -> None:
    with opened(browser, gateway) as page:
        sign_in(page)
        view(page, "Connect")
        shown = {
            name: page.locator(f'[data-snippet="{title}"] code').text_content()
            for name, title in AGENTS.items()
        }
    for name, snippet in shown.items():
        assert _in_shell(snippet, name) == _in_shell(_printed(gateway, name), name)


def _printed(gateway: str, name: str) -> str:
    command = ["-m", "toolgate_proxy", "launch", name, "--print"]
    command += ["--url", gateway, "--model", "tiny"]
    done = subprocess.run(
        [sys.executable, *command],
        env={**os.environ, "TOOLGATE_API_KEY": MASTER_KEY, "NO_PROXY": "*"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def _in_shell(snippet: str, name: str) -> str:
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
