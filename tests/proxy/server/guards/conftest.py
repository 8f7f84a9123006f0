"""No comment begins a stream, and the model can be told to call a tool."""

from __future__ import annotations

import pytest

from tests.support.litellm.own_route import Gateway
from tests.support.servers.script import Script, call


@pytest.fixture(autouse=True)
def _script(gateway: Gateway) -> None:
    gateway.configure(keepalive_seconds=0)
    gateway.backend.scripts["call"] = Script((call("look", {"a": "ZZZZ"}),))
