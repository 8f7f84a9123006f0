"""Files, tokenizer and chat template of the demo model, and the judgement of its answers."""

import json

import jinja2
import jinja2.sandbox
import pytest
from tokenizers import Tokenizer

from demo_evaluation import Answer, Conversation, conversations, read
from toolgate_core.dialects.registry import recognise
from toolgate_demo_model import path

MOST_BYTES = 8_000_000


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(path() / "tokenizer.json"))


@pytest.fixture(scope="module")
def template() -> jinja2.Template:
    """Return the chat template, in the environment that transformers renders it in."""
    config = json.loads((path() / "tokenizer_config.json").read_text(encoding="utf-8"))
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    return environment.from_string(config["chat_template"])


def test_model_is_small_and_complete() -> None:
    names = {path.name for path in path().iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= names
    assert (path() / "model.safetensors").stat().st_size <= MOST_BYTES


def test_template_writes_each_tool_in_one_line(template: jinja2.Template) -> None:
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
    messages = [{"role": "user", "content": "?"}]
    text = template.render(messages=messages, tools=[{"type": "function", "function": function}])
    assert "\nFirst: f(when?, unit?: c|f, any?: any, free?: object, all?: any)<|im_end|>" in text
    bare = template.render(messages=messages, tools=[{"function": {"name": "g"}}])
    assert "\ng()<|im_end|>" in bare


def test_dialect_is_qwen3s(tokenizer: Tokenizer) -> None:
    assert recognise(tokenizer.get_vocab()).dialect.name == "qwen3"


@pytest.mark.parametrize(
    "value", ["Austin, TX", "Ouagadougou", "青岛", "T-1013", "a@b.org", "7:30 pm"]
)
def test_value_has_the_same_pieces_in_prose_and_in_json(tokenizer: Tokenizer, value: str) -> None:
    def pieces(text: str) -> list[str]:
        encoding = tokenizer.encode(text)
        begin = text.index(value)
        spans = zip(encoding.tokens, encoding.offsets, strict=True)
        tokens = [token for token, (_, end) in spans if begin < end <= begin + len(value)]
        return [tokens[0].removeprefix("Ġ"), *tokens[1:]]

    prose = pieces(f"the value is {value} here")
    assert prose == pieces(json.dumps({"x": value, "y": 1}, ensure_ascii=False))


@pytest.mark.parametrize(
    "text", ["naïve café 🙂 \t tabs\n\n\nlines", '{"a": [1, {"b": "c"}]}', "<tool_call>\n"]
)
def test_text_comes_back_from_its_tokens(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_expected_calls_of_the_evaluation_are_right_and_valid() -> None:
    asked = conversations()
    assert len(asked) == 100
    for conversation in asked:
        calls = tuple((call["name"], json.dumps(call["arguments"])) for call in conversation.calls)
        answer = Answer(calls, f"{' '.join(conversation.holds)}.")
        assert conversation.right(answer)
        assert conversation.valid(answer)


def test_wrong_and_invalid_answers_are_told_apart() -> None:
    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    tools = [{"function": {"name": "weather", "parameters": parameters}}]
    asked = Conversation("", tools, [], calls=[{"name": "weather", "arguments": {"city": "Rome"}}])
    wrong = read('<tool_call>\n{"name": "weather", "arguments": {"city": "Oslo"}}\n</tool_call>')
    assert (asked.right(wrong), asked.valid(wrong)) == (False, True)
    for arguments in ('{"city": 1}', '{"city": "Rome", "day": 1}', '{"city"'):
        text = f'<tool_call>\n{{"name": "weather", "arguments": {arguments}}}\n</tool_call>'
        assert not asked.valid(read(text))
    sentence = Conversation("", tools, [], holds=["21"])
    assert sentence.right(read("<think>\n\n</think>\n\nIt is 21 degrees."))
    assert not sentence.right(read("It is 20 degrees."))
