"""The OpenAI Agents SDK against a running gateway whose backend answers by script."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.agents.agent_cli import NO_NETWORK, RUN_SECONDS
from tests.support.agents.client_packages import CLIENTS, client_python
from tests.support.litellm.routes import OWN_ROUTE_ONLY
from tests.support.servers.fake_backend import FakeBackend
from tests.support.servers.gateway_process import MASTER_KEY
from tests.support.servers.script import Script
from toolgate_proxy.chat.compaction.prompt import shown

pytestmark = OWN_ROUTE_ONLY
TEXTS = ("One.", "Two.", "They counted.", "Three.")


def test_a_session_compacts_its_conversation(
    gateway: str, backend: FakeBackend, tmp_path: Path
) -> None:
    backend.turns += [Script((text,)) for text in TEXTS * 2]
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GATEWAY_URL": gateway,
        "GATEWAY_KEY": MASTER_KEY,
        "GATEWAY_BIAS": "{}",
        **NO_NETWORK,
    }
    done = subprocess.run(
        [str(client_python()), str(CLIENTS / "use_agents_compaction.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    modes = ("input", "previous_response_id")
    assert done.stdout.splitlines() == [f"checked: {mode}: Three." for mode in modes]
    assert not backend.turns
    for at in (3, 7):
        texts = [str(message["content"]) for message in backend.messages(at)]
        assert shown("They counted.") in texts
        assert "One." not in str(texts)
        assert texts[-1] == "Third."
