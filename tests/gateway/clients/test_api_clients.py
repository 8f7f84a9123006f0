"""Client libraries on the Messages and Responses APIs, each with its program in tests/clients."""

from __future__ import annotations

from tests.gateway.clients.client_programs import check_program

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

test_a_client_librarys_program_succeeds = check_program
