"""Programs of client libraries against a gateway whose backend does what it is asked: calls where
they are allowed, values of the schema, thoughts where they are wanted."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.agents.client_packages import client_python, node_folder, run_program
from tests.support.effort import rotating
from tests.support.servers.fake_backend import FakeBackend, running
from tests.support.servers.gateway_process import MASTER_KEY, serving
from tests.support.servers.redis_server import redis_server
from tests.support.servers.script import Script, call
from toolgate_proxy.ops import page

pytestmark = pytest.mark.litellm_process
PROGRAMS = (
    "use_openai.py",
    "use_openai_responses.py",
    "use_anthropic.py",
    "use_langchain.py",
    "use_vercel.mjs",
    "use_agents.py",
    "use_instructor.py",
    "use_pydantic_ai.py",
    "use_openai.mjs",
    "use_anthropic.mjs",
)
"""The others are run with vLLM, nightly. Each commit runs a fifth of these."""


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
        elif asked is not None and asked.candidates and not self._is_done(message):
            last = asked.candidates[-1]
            said = call(last.name, value_of(schemas[last.key]))
        if asked is not None and asked.reasoning == "on":
            said = f"<think>\nWhich one?\n</think>\n\n{said}"
        tokens = self.tokens(message.prompt)
        return Script((said,), prompt_tokens=tokens, cached_tokens=min(3, tokens))

    def _is_done(self, message):
        """Return whether a call that may be left out has its result."""
        last = message.prompt.messages[-1]
        return last["role"] == "tool" and message.enforcement.choice == "auto"


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


@rotating("file", PROGRAMS, one_in=5)
def test_a_client_librarys_program_succeeds(gateway, tmp_path, file):
    """It prints what it has checked, and fails by an assertion."""
    run_program(file, tmp_path, gateway, MASTER_KEY)


FOLLOWED = yaml.safe_load(Path(__file__).with_name("snippets.yaml").read_text())
SNIPPETS = Path(page.__file__).parent / "static" / "connect" / "snippets.js"
PRINT = """
const [, module, url, key] = process.argv;
const { snippets } = await import(module);
console.log(JSON.stringify(Object.fromEntries(snippets(url, "tiny", null, key))));
"""


README = (Path(__file__).parents[2] / "README.md").read_text()
PLACE = "from pydantic import BaseModel\n\nclass Place(BaseModel):\n    city: str\n"


def readme(url):
    """Return the README's snippet."""
    text = README.partition("```python\n")[2].partition("```")[0]
    given = ('"http://127.0.0.1:4000', f'"{url}'), ("sk-…", MASTER_KEY), ("Qwen3-8B", "tiny")
    for old, new in given:
        assert old in text
        text = text.replace(old, new)
    return text


def command(title, snippet):
    """Return what runs a snippet. Node looks for packages where the program is."""
    if "JavaScript" in title or title == "Vercel AI SDK":
        (program := node_folder() / "followed.mjs").write_text(snippet)
        return ["node", str(program)]
    own = title in ("README", "OpenAI SDK (Python)", "Anthropic SDK (Python)")
    return [sys.executable if own else str(client_python()), "-c", snippet]


@rotating("title", FOLLOWED, one_in=3)
def test_a_client_as_a_snippet_of_the_page_sets_it_up_has_formats_and_loops(
    gateway, tmp_path, title
):
    module = shutil.copy(SNIPPETS, tmp_path / "snippets.mjs")
    show = ["node", "--input-type=module", "-e", PRINT, str(module), gateway, MASTER_KEY]
    shown = json.loads(subprocess.run(show, capture_output=True, text=True, check=True).stdout)
    shown["README"] = readme(gateway)
    place = PLACE if "print" in FOLLOWED[title] else ""
    ran = subprocess.run(
        command(title, f"{shown[title]}\n{place}{FOLLOWED[title]}"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    assert "format: Oslo" in ran.stdout
    assert "loop: It is sunny." in ran.stdout
