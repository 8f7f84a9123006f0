"""Client libraries on chat completions, each with its program in tests/clients."""

from __future__ import annotations

from tests.gateway.clients.client_programs import check_program

AT_ONCE = {
    "langchain": ("use_langchain.py",),
    "pydantic_ai": ("use_pydantic_ai.py",),
    "instructor": ("use_instructor.py",),
    "vercel": ("use_vercel.mjs",),
}
ALONE = {"openai": ("use_openai.py",)}

test_a_client_librarys_program_succeeds = check_program
