"""Client libraries on the Messages API, each with its program in tests/clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.clients.client_programs import Programs, collected, programs
from tests.gateway.servers import Gateway

AT_ONCE = {
    "anthropic_context": ("use_anthropic_context.py",),
    "anthropic_js": ("use_anthropic.mjs",),
    "vercel": ("use_vercel.mjs", "messages"),
    "langchain": ("use_langchain.py", "messages"),
    "pydantic_ai": ("use_pydantic_ai.py", "messages"),
}
ALONE = {"anthropic": ("use_anthropic.py",)}


@pytest.fixture(scope="module")
def running() -> Iterator[Programs]:
    with programs(AT_ONCE, ALONE) as running:
        yield running


@pytest.mark.parametrize("name", [*AT_ONCE, *ALONE])
def test_a_client_librarys_program_succeeds(
    name: str,
    request: pytest.FixtureRequest,
    running: Programs,
    gateway: Gateway,
    bias: dict[str, float],
) -> None:
    running.check(name, gateway, bias, collected(request))
