"""Programs of client libraries against a gateway whose backend does what it is asked: calls where
they are allowed, values of the schema, thoughts where they are wanted."""

import json

import pytest

from tests.support.agents.client_packages import run_program
from tests.support.effort import rotating
from tests.support.servers.fake_backend import FakeBackend, running
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.redis_server import redis_server
from tests.support.servers.script import Script, call

pytestmark = pytest.mark.litellm_process
PROGRAMS = (
    "use_openai.py",
    "use_openai_responses.py",
    "use_anthropic.py",
    "use_langchain.py",
    "use_vercel.mjs",
    "use_agents.py",
)
"""The others are run with vLLM, nightly. Each commit runs a third of these."""


class Obliging:
    """A model that does what a request asks for."""

    def __init__(self, backend):
        self._backend = backend

    def tokens(self, prompt):
        return len(prompt.model_dump_json(exclude={"template_kwargs"})) // 4

    def answer(self, message):
        asked = message.enforcement
        schemas = {source.key: source.parameters for source in self._backend.sources}
        said = "It is sunny."
        if asked is not None and asked.content is not None:
            said = json.dumps(value_of(schemas[asked.content]))
        elif asked is not None and asked.candidates:
            last = asked.candidates[-1]
            said = call(last.name, value_of(schemas[last.key]))
        if asked is not None and asked.reasoning == "on":
            said = f"<think>\nWhich one?\n</think>\n\n{said}"
        tokens = self.tokens(message.prompt)
        return Script((said,), prompt_tokens=tokens, cached_tokens=min(3, tokens))


def value_of(schema):
    """A value of a simple schema."""
    match schema:
        case {"enum": [first, *_]} | {"const": first}:
            return first
        case {"anyOf": [first, *_]}:
            return value_of(first)
        case {"type": "array"}:
            return [value_of(schema.get("items", {"type": "string"}))] * schema.get("minItems", 1)
        case {"type": "object"} | {"properties": _}:
            return {name: value_of(each) for name, each in schema.get("properties", {}).items()}
        case {"type": "integer" | "number"}:
            return 1
        case {"type": "boolean"}:
            return True
    return "Oslo, at the end of its fjord. " * 6  # so long that limits cut calls


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    backend = FakeBackend()
    backend.model = Obliging(backend)
    log = tmp_path_factory.mktemp("gateway") / "log"
    with (
        running(backend),
        redis_server() as redis,
        serving(["--model", "tiny"], backend.url, log, redis.url) as gateway,
    ):
        yield gateway.url


@rotating("file", PROGRAMS, one_in=3)
def test_a_client_librarys_program_succeeds(gateway, tmp_path, file):
    """It prints what it has checked, and fails by an assertion."""
    run_program(file, tmp_path, gateway, MASTER_KEY)
