"""What the scripted backend says."""

from __future__ import annotations

import pytest

from tests.support.litellm.own_route import Gateway
from tests.support.servers.script import Script, call


@pytest.fixture(autouse=True)
def scripts(gateway: Gateway) -> None:
    gateway.backend.scripts |= {
        "call": Script((f"<think>Hm, let me look</think>{call('look', {})}",)),
        "thought": Script(("<think>Let me think</think>Hello there",)),
        "result": Script(("It is there",)),
        "next": Script(("And so on",)),
        "cut": Script(("Hello the",), finish="length"),
    }
