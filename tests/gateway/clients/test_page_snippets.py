"""The settings of coding agents as the page shows them, pasted into a shell with an empty home: an
answer of the whole stack comes. A proxy before the gateway serves the page, too, and forbids calls,
because a random model's commands are not run."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.gateway.clients.adding_proxy import AddingProxy, adding_proxy
from tests.gateway.servers import Gateway
from tests.support.agents.agent_cli import CATALOG, folders, run
from tests.support.agents.client_packages import claude_command, codex_command
from tests.support.apis.messages_api import accumulated as message_of
from tests.support.apis.read_responses import read_events
from tests.support.apis.responses_api import accumulated as items_of
from tests.support.browser.chromium import chromium, opened


@dataclass(frozen=True)
class Run:
    """What a client printed: JSON objects, and errors. And what went through the proxy."""

    printed: list[dict[str, Any]]
    errors: str
    proxy: AddingProxy


def pasted(
    title: str,
    *arguments: str,
    added: dict[str, Any],
    command: Path,
    gateway: Gateway,
    folder: Path,
) -> Run:
    """Runs a snippet of the page with more arguments, as a user adds them behind its last line.
    `added`: to the body of its first request."""
    with adding_proxy(gateway.url, [added]) as proxy:
        snippet = shown(title, proxy.url, gateway.key)
        home, work = folders(folder)
        environment = {
            "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(home),
            "TOOLGATE_API_KEY": gateway.key,
            "ANTHROPIC_API_KEY": "another key of the user's shell",
        }
        script = f"{snippet} {shlex.join(arguments)}"
        made = Run(*run(["bash", "-c", script], work, environment), proxy)
    assert made.proxy.bodies[0]["model"] == "tiny"
    return made


def shown(title: str, url: str, key: str) -> str:
    """A snippet of the page."""
    with chromium() as browser, opened(browser, url) as page:
        page.get_by_label("API key").fill(key)
        page.keyboard.press("Enter")
        page.get_by_role("link", name="Connect", exact=True).click()
        page.locator("#connect-model").select_option("tiny")
        return str(page.locator(f'[data-snippet="{title}"] code').text_content())


def test_claude_code_answers_with_the_settings_of_the_page(
    gateway: Gateway, bias: dict[str, float], tmp_path: Path
) -> None:
    added: dict[str, Any] = {
        "logit_bias": bias,
        "max_tokens": 800,
        "reasoning_budget": 20,
        "seed": 3,
        "tool_choice": {"type": "none"},
    }
    # The context of the model is shorter than Claude Code's own prompt with all tools.
    options = ["-p", "Hello", "--output-format", "stream-json", "--verbose"]
    options += ["--tools", "Read", "--system-prompt", "Be brief."]
    command = claude_command()
    made = pasted(
        "Claude Code", *options, added=added, command=command, gateway=gateway, folder=tmp_path
    )
    result = made.printed[-1]
    assert (result["subtype"], result["is_error"]) == ("success", False), made
    answer = message_of(read_events(made.proxy.answers[0]))
    text = "".join(block["text"] for block in answer["content"] if block["type"] == "text")
    assert result["result"].strip() == text.strip()


def test_codex_answers_with_the_settings_of_the_page(
    gateway: Gateway, bias: dict[str, float], tmp_path: Path
) -> None:
    added = {"logit_bias": bias, "max_output_tokens": 400, "seed": 3, "tool_choice": "none"}
    (catalog := tmp_path / "models.json").write_text(json.dumps({"models": [CATALOG]}))
    # With an entry in its catalogue, Codex's prompt is not longer than the context of the model.
    options = ["-c", f"model_catalog_json={json.dumps(str(catalog))}", "exec", "--json"]
    options += ["--skip-git-repo-check", "--sandbox", "read-only", "Hello"]
    command = codex_command()
    made = pasted(
        "Codex CLI", *options, added=added, command=command, gateway=gateway, folder=tmp_path
    )
    assert made.printed[-1]["type"] == "turn.completed", made
    items = items_of(read_events(made.proxy.answers[0]))
    text = "".join(
        part["text"] for item in items if item["type"] == "message" for part in item["content"]
    )
    said = [event["item"] for event in made.printed if event["type"] == "item.completed"]
    answers = [item["text"] for item in said if item["type"] == "agent_message"]
    assert "".join(answers).strip() == text.strip()
