"""Clients through a gateway with all that teams configure.

LiteLLM's database, on the stand-in for the client that prisma generates, guardrails, the response
cache, and a model that fails, so that each answer comes from its fallback.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import yaml

from tests.proxy.process.clients import test_claude_code, test_codex
from tests.support.agents.agent_cli import run_program
from tests.support.agents.client_packages import client_python
from tests.support.litellm.prisma_stand_in import Prisma
from tests.support.litellm.shared_tables import add_key, configure, install, logged, shared
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import serving
from tests.support.servers.script import Script, call
from tests.support.waiting import until
from toolgate_proxy.chat.compaction.compacted import shown
from toolgate_proxy.server.launcher import Route, make_config
from toolgate_proxy.stack.processes import free_port

pytestmark = pytest.mark.slow
Scenario = Callable[[str, FakeBackend, Path], None]
PRICES = {"input_cost_per_token": 0.001, "output_cost_per_token": 0.01}
WRITTEN = 120
"""Seconds in which LiteLLM writes spend to its database."""
FALLBACK = "spare"
ANSWERED = (
    test_codex.test_codex_runs_a_command_and_reads_its_result,
    test_codex.test_codex_runs_two_commands_of_one_turn,
    test_codex.test_codex_calls_a_tool_of_a_namespace,
    test_codex.test_codex_applies_a_patch_of_its_custom_tool,
    test_codex.test_codex_compacts_its_context_in_a_request_of_its_own,
    test_codex.test_codex_with_its_own_provider_runs_a_command,
    test_claude_code.test_claude_runs_a_command_and_reads_a_file,
    test_claude_code.test_claude_runs_two_commands_of_one_turn,
)
MODULES = (test_codex, test_claude_code)
RESULT, HANDED_OFF = "Sunny in Oslo.", '{"assistant": "speaker"}'
"""What the tools of the agents return."""


@dataclass(frozen=True)
class Team:
    url: str
    tables: Prisma
    backend: FakeBackend


def guardrail(mode):
    """LiteLLM's content filter."""
    words = [{"keyword": f"no-{mode}", "action": "BLOCK"}]
    params = {"guardrail": "litellm_content_filter", "mode": mode, "default_on": True}
    return {"guardrail_name": mode, "litellm_params": params | {"blocked_words": words}}


@pytest.fixture(scope="module")
def team(backend_of_session, spare_redis, tmp_path_factory):
    folder = tmp_path_factory.mktemp("team-of-clients")
    down = f"http://127.0.0.1:{free_port()}"
    config = make_config([Route("tiny", "tiny", down), Route(FALLBACK, "tiny")])
    for row in config["model_list"]:
        row["litellm_params"] |= PRICES
    configure(config)
    config["general_settings"]["proxy_batch_write_at"] = 1
    config["guardrails"] = [guardrail(mode) for mode in ("pre_call", "post_call")]
    config["router_settings"]["fallbacks"] = [{"tiny": [FALLBACK]}]
    config["litellm_settings"] |= {"cache": True, "cache_params": {"type": "local"}}
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    tables = Prisma()
    with (
        shared(tables) as address,
        serving(
            ["--config", str(path)],
            backend_of_session.url,
            folder / "log",
            spare_redis.url,
            partial(install, address),
            DATABASE_URL="postgresql://stand-in",
        ) as gateway,
    ):
        yield Team(gateway.url, tables, backend_of_session)


@pytest.fixture
def key(team, monkeypatch):
    """A key of LiteLLM's database, with which the clients' tests run."""
    team.backend.clear()
    made = asyncio.run(add_key(team.tables, max_budget=10_000.0))
    for module in MODULES:
        monkeypatch.setattr(module, "MASTER_KEY", made)
    return made


def check_rows(team, key):
    """Each answer of the backend is in the log, with its price, and the key has paid them."""
    generated = len(team.backend.requests)

    def rows():
        return [row for row in logged(team.tables, key) if row["status"] == "success"]

    def spent():
        held = team.tables.litellm_verificationtoken.rows
        return float(next(row["spend"] for row in held if row["token"] == rows()[0]["api_key"]))

    asyncio.run(until(lambda: len(rows()) >= generated, WRITTEN))
    priced = [row["spend"] for row in rows() if row["spend"]]
    assert len(priced) == generated
    assert {row["model_group"] for row in rows()} == {FALLBACK}
    asyncio.run(until(lambda: spent() == pytest.approx(sum(priced)), WRITTEN))


@pytest.mark.parametrize("scenario", ANSWERED, ids=lambda each: each.__name__)
def test_a_client_works(team, key, tmp_path, scenario):
    scenario(team.url, team.backend, tmp_path)
    check_rows(team, key)


def test_the_agents_sdk_works(team, key, tmp_path):
    """Its second run is answered from the cache, which costs the key nothing."""
    asked = [
        f"How is Oslo ({api}, {form})?"
        for api in ("responses", "chat")
        for form in ("whole", "streamed")
    ]
    team.backend.scripts |= {
        **dict.fromkeys(asked, Script((call("get_weather", {"city": "Oslo"}),))),
        RESULT: Script((call("transfer_to_speaker", {}),)),
        HANDED_OFF: Script(("Oslo is sunny.",)),
    }
    for _ in range(2):
        lines = run_program(
            client_python(),
            "use_agents_team.py",
            tmp_path,
            team.url,
            checks=8,
            GATEWAY_KEY=key,
            REFUSED_WORD="no-pre_call",
        )
        assert [line.split(": ", 1)[1] for line in lines if "How is" in line] == [
            f"{question} Oslo is sunny." for question in asked
        ]
        check_rows(team, key)
    assert len(team.backend.requests) < 2 * 3 * len(asked)


TEXTS = ("One.", "Two.", "They counted.", "Three.")


def test_a_session_compacts_its_conversation(gateway, backend, tmp_path):
    backend.turns += [Script((text,)) for text in TEXTS * 2]
    python = client_python()
    checked = run_program(python, "use_agents_compaction.py", tmp_path, gateway, checks=2)
    assert checked == ["checked: input: Three.", "checked: previous_response_id: Three."]
    assert not backend.turns
    for at in (3, 7):
        texts = [str(message["content"]) for message in backend.messages(at)]
        assert shown("They counted.") in texts
        assert "One." not in str(texts)
        assert texts[-1] == "Third."
