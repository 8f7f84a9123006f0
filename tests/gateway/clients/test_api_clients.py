"""Client libraries on the Messages and Responses APIs, each with its program in tests/clients."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.gateway.clients.client_programs import Programs, collected, programs
from tests.gateway.servers import Gateway

AT_ONCE = {
    "anthropic_context": ("use_anthropic_context.py",),
    "anthropic_js": ("use_anthropic.mjs",),
    "vercel_messages": ("use_vercel.mjs", "messages"),
    "langchain_messages": ("use_langchain.py", "messages"),
    "pydantic_ai_messages": ("use_pydantic_ai.py", "messages"),
    "openai_js": ("use_openai.mjs",),
    "vercel_responses": ("use_vercel.mjs", "responses"),
    "vercel_open_responses": ("use_vercel.mjs", "open-responses"),
    "agents": ("use_agents.py",),
    "agents_compaction": ("use_agents_compaction.py",),
    "langchain_responses": ("use_langchain.py", "responses"),
    "pydantic_ai_responses": ("use_pydantic_ai.py", "responses"),
}
ALONE = {"anthropic": ("use_anthropic.py",), "openai": ("use_openai_responses.py",)}


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
