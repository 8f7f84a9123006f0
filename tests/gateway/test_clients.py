"""Client libraries, each with its program in tests/clients. `make test` runs OpenAI's, and some of
the others."""

import json
import os
import subprocess

from tests.support.agents.client_packages import (
    CLIENTS,
    anthropic_python,
    client_python,
    node_folder,
)
from tests.support.effort import rotating

from .kit import both_ways
from .servers import Gateway

RUN_SECONDS = 300
"""Only a failure takes so long."""
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
def test_openais_library_makes_the_six_cases_and_a_loop(gateway, bias):
    check_program("use_openai.py", gateway, bias)


@rotating("program", OTHERS, one_in=9)
def test_a_client_librarys_program_succeeds(program, gateway, bias):
    check_program(program, gateway, bias)


def check_program(command: str, gateway: Gateway, bias: dict[str, float]) -> None:
    """Skips the test if the program's packages can't be installed."""
    program, *arguments = command.split()
    if program.endswith(".mjs"):
        interpreter, folder = "node", node_folder()
    else:
        python = anthropic_python if program.startswith("use_anthropic") else client_python
        interpreter, folder = str(python()), CLIENTS
    environment = {
        **os.environ,
        "GATEWAY_URL": gateway.url,
        "GATEWAY_KEY": gateway.key,
        "GATEWAY_BIAS": json.dumps(bias),
        "NO_PROXY": "*",
    }
    done = subprocess.run(
        [interpreter, program, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    assert "checked:" in done.stdout
