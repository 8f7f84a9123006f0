"""The OpenAI Agents SDK against a running gateway whose backend answers by script."""

from __future__ import annotations

from pathlib import Path

from tests.support.agents.agent_cli import run_program
from tests.support.agents.client_packages import client_python
from tests.support.litellm.routes import OWN_ROUTE_ONLY
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.script import Script
from toolgate_proxy.chat.compaction.compacted import shown

pytestmark = OWN_ROUTE_ONLY
TEXTS = ("One.", "Two.", "They counted.", "Three.")


def test_a_session_compacts_its_conversation(
    gateway: str, backend: FakeBackend, tmp_path: Path
) -> None:
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
