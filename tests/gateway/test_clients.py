"""Client libraries, each with its program in tests/clients. `make test` runs OpenAI's, and some of
the others."""

import json

from tests.support.agents.client_packages import run_program
from tests.support.effort import rotating

from .kit import both_ways

OTHERS = (
    "use_langchain.py",
    "use_pydantic_ai.py",
    "use_instructor.py",
    "use_vercel.mjs",
    "use_anthropic.py",
    "use_anthropic_context.py",
    "use_anthropic.mjs",
    "use_vercel.mjs messages",
    "use_langchain.py messages",
    "use_pydantic_ai.py messages",
    "use_openai_responses.py",
    "use_openai.mjs",
    "use_vercel.mjs responses",
    "use_vercel.mjs open-responses",
    "use_agents.py",
    "use_agents_compaction.py",
    "use_langchain.py responses",
    "use_pydantic_ai.py responses",
)


@both_ways
def test_openais_library_makes_the_six_cases_and_a_loop(gateway, bias, tmp_path):
    check_program("use_openai.py", tmp_path, gateway, bias)


@rotating("program", OTHERS, one_in=9)
def test_a_client_librarys_program_succeeds(program, gateway, bias, tmp_path):
    check_program(program, tmp_path, gateway, bias)


def check_program(command, folder, gateway, bias):
    run_program(command, folder, gateway.url, gateway.key, GATEWAY_BIAS=json.dumps(bias))
