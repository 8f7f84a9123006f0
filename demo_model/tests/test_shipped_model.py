"""Files, tokenizer and chat template of the shipped model."""

from __future__ import annotations

import json
from typing import Any

import jinja2
import jinja2.sandbox
import pytest
from tokenizers import Tokenizer

from toolgate_core.dialects.recognition import recognise
from toolgate_demo_model import path
from trainer.asking import request_of
from trainer.dialogue import Dialogue, head, render
from trainer.export import template
from trainer.handwritten import parse
from trainer.samples import Source
from trainer.tokenizer import composition

MOST_BYTES = 8_000_000


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(path() / "tokenizer.json"))


@pytest.fixture(scope="module")
def shown() -> jinja2.Template:
    """The chat template, in the environment that transformers renders it in."""
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(template())


def prompt(shown: jinja2.Template, dialogue: Dialogue) -> str:
    request = request_of(dialogue)
    messages: list[dict[str, Any]] = request["messages"]
    for call in (call for message in messages for call in message.get("tool_calls", ())):
        # As vLLM does it (vllm/entrypoints/chat_utils.py), so that templates see objects.
        call["function"]["arguments"] = json.loads(call["function"]["arguments"])
    thinks = request.get("reasoning_effort") != "none"
    return shown.render(
        messages=messages,
        tools=request.get("tools"),
        add_generation_prompt=True,
        enable_thinking=thinks,
    )


def test_it_is_small_and_whole() -> None:
    names = {path.name for path in path().iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= names
    assert (path() / "model.safetensors").stat().st_size <= MOST_BYTES


def test_its_template_is_the_one_in_the_sources() -> None:
    config = json.loads((path() / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert config["chat_template"] == template()


def test_the_template_writes_what_was_trained_on(shown: jinja2.Template) -> None:
    source = Source(21)
    for _ in range(200):
        dialogue = source.draw()
        assert render(dialogue).text.startswith(prompt(shown, dialogue))


def test_schemas_of_others_are_shown_in_one_line(shown: jinja2.Template) -> None:
    parameters = {
        "type": "object",
        "properties": {
            "when": {"type": ["null", "string"], "format": "date"},
            "unit": {"anyOf": [{"enum": ["c", "f"]}, {"type": "null"}]},
            "any": {},
            "free": {"type": "object"},
            "all": True,
        },
    }
    function = {"name": "f", "description": "First. Second.\nThird.", "parameters": parameters}
    text = shown.render(
        messages=[{"role": "user", "content": "?"}],
        tools=[{"type": "function", "function": function}],
    )
    assert "\nFirst: f(when?, unit?: c|f, any?: any, free?: object, all?: any)<|im_end|>" in text
    bare = shown.render(
        messages=[{"role": "user", "content": "?"}], tools=[{"function": {"name": "g"}}]
    )
    assert "\ng()<|im_end|>" in bare


def test_it_speaks_qwen3s_dialect(tokenizer: Tokenizer) -> None:
    assert recognise(tokenizer.get_vocab()).dialect.name == "qwen3"


@pytest.mark.parametrize(
    "value", ["Austin, TX", "Ouagadougou", "青岛", "T-1013", "a@b.org", "7:30 pm"]
)
def test_a_value_is_cut_alike_in_prose_and_in_json(tokenizer: Tokenizer, value: str) -> None:
    base = composition(tokenizer).base

    def inside(text: str) -> tuple[list[int], list[int]]:
        """Its tokens, the space before it left out, and the words that they are forms of."""
        encoding = tokenizer.encode(text)
        begin = text.index(value)
        spans = zip(encoding.ids, encoding.offsets, strict=True)
        tokens = [token for token, (_, end) in spans if begin < end <= begin + len(value)]
        return tokens, base[tokens].tolist()

    _, prose = inside(f"the value is {value} here")
    tokens, written = inside(json.dumps({"x": value, "y": 1}, ensure_ascii=False))
    assert prose == written
    assert tokenizer.decode(tokens) == value


def test_text_comes_back_from_its_tokens(tokenizer: Tokenizer) -> None:
    tool = parse("Order food: order(items: [{name, quantity: integer}])")
    for text in (
        head("Be brief.", [tool]),
        "naïve café 🙂 \t tabs\n\n\nlines",
        '{"a": [1, {"b": "c"}]}',
    ):
        assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text
