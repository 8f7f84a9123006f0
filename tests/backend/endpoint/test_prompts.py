"""Prompts: added tools, histories in a template's form, and the state at their end."""

import copy
import json
import random
import re
from dataclasses import replace
from pathlib import Path

import jinja2
import pytest
from transformers import AddedToken
from transformers.utils.chat_template_utils import render_jinja_template

from tests.support.effort import repeats
from tests.support.shared_data import TEMPLATES
from toolgate_backend.endpoint.histories import (
    KNOWN,
    RULES,
    AddedTools,
    conversation,
    inserted,
    learnt,
)
from toolgate_backend.endpoint.rendering import TurnStart
from toolgate_backend.tokens.vocabulary import make_vocabulary
from toolgate_core.dialects.dialect import Reasoning
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import UnsupportedParameter
from toolgate_core.wire import ChatPrompt

HERMES = DIALECTS["hermes"]
QWEN3 = DIALECTS["qwen3"]
CASES = json.loads(Path(__file__).with_name("prompts.json").read_text())

# --- added tools ---
CLOSE = CASES["close"]
OPEN = {"type": "function", "function": {"name": "open_valve", "parameters": {"type": "object"}}}
LINES = (
    "{% for m in messages %}{% if loop.first and tools %}<|start|>system\nTools:\n<tools>"
    "{% for t in tools %}\n{{ t | tojson }}{% endfor %}\n</tools>\nCall one.<|end|>{% endif %}"
    "<|start|>{{ m.role }}\n{{ m.content }}<|end|>{% endfor %}<|start|>assistant\n"
)
"""A line for each tool, between a heading and instructions."""
ARRAY = "{% if tools %}[{{ tools | map('tojson') | join(', ') }}]{% endif %}{{ messages | length }}"
TAGS = "<tools>{% for t in tools or [] %}<t>{{ t.function.name }}</t>{% endfor %}</tools>"
MARKED = "{% for t in tools or [] %}<|tool|>{{ t.function.name }}<|end|>{% endfor %}"
COUNTED = "{{ tools | length }}{% for t in tools or [] %}{{ t.function.name }}{% endfor %}"
USER_ONLY = "{% if messages[0].role == 'system' %}{{ 1 / 0 }}{% endif %}" + TAGS


class Rendered:
    """Renders prompts, as vLLM's renderer does."""

    def __init__(self, source):
        environment = jinja2.Environment()
        environment.filters["tojson"] = json.dumps
        self._template = environment.from_string(source)
        self.count = 0

    async def __call__(self, messages, tools):
        self.count += 1
        return self._template.render(messages=messages, tools=tools)


def part(*tools):
    return {"type": "tool_definitions", "tools": [*tools]}


def prompt(*content):
    result = {"role": "tool", "tool_call_id": "c1", "content": [*content]}
    return ChatPrompt(messages=({"role": "user", "content": "hi"}, result), tools=(OPEN,))


async def text_in(source, *tools):
    _, result = await AddedTools(Rendered(source), ["<|tool|>", "<|end|>"]).shown(
        prompt(part(*tools))
    )
    content = result["content"]
    return content.removeprefix("<tools>\n").removesuffix("\n</tools>")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    CASES["what_was_inserted"],
)
def test_what_was_inserted(before, after, expected):
    assert inserted(before, after) == expected


LINE_OF_CLOSE, LINE_OF_OPEN = json.dumps(CLOSE), json.dumps(OPEN)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (LINES, f"{LINE_OF_CLOSE}\n{LINE_OF_OPEN}"),
        (ARRAY, f"{LINE_OF_CLOSE}, {LINE_OF_OPEN}"),
        (TAGS, "<t>close_valve</t><t>open_valve</t>"),
        (USER_ONLY, "<t>close_valve</t><t>open_valve</t>"),
    ],
)
async def test_tools_have_the_form_of_the_template(source, expected):
    assert await text_in(source, CLOSE, OPEN) == expected


@pytest.mark.parametrize("source", [MARKED, COUNTED, "no tools", "{{ 1 / 0 }}"])
async def test_other_forms_become_lines_of_json(source):
    assert await text_in(source, CLOSE, OPEN) == f"{LINE_OF_CLOSE}\n{LINE_OF_OPEN}"


async def test_content_of_texts_becomes_one_text():
    text = {"type": "text", "text": "Found:"}
    tools = AddedTools(Rendered(TAGS), [])
    _, result = await tools.shown(prompt(text, part(CLOSE), part()))
    assert result["content"] == "Found:\n<tools>\n<t>close_valve</t>\n</tools>"
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    _, result = await tools.shown(prompt(image, part(CLOSE)))
    assert [each["type"] for each in result["content"]] == ["image_url", "text"]
    _, result = await tools.shown(prompt(part()))
    assert result["content"] == ""


async def test_messages_without_tools_stay():
    template = Rendered(LINES)
    given = prompt({"type": "text", "text": "a"}, {"type": "text", "text": "b"})
    assert await AddedTools(template, []).shown(given) == [*given.messages]
    assert template.count == 0


async def test_a_text_is_made_once():
    template = Rendered(LINES)
    tools = AddedTools(template, [])
    first = await tools.shown(prompt(part(CLOSE)))
    count = template.count
    assert await tools.shown(prompt(part(CLOSE))) == first
    assert template.count == count


async def test_a_timeout_is_no_other_form():
    async def late(_messages, _tools):
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await AddedTools(late, []).shown(prompt(part(CLOSE)))


OWN_FORM = CASES["own_form"]
"""By model: how its template writes a tool."""


@pytest.mark.parametrize("model", OWN_FORM)
async def test_forms_of_real_templates(model):
    path = TEMPLATES / f"{model}.jinja"
    if not path.exists():
        pytest.skip(f"{path} is not there")

    async def render(messages, tools):
        [text], _ = render_jinja_template([[*messages]], [*tools], chat_template=path.read_text())
        return str(text)

    _, result = await AddedTools(render, []).shown(prompt(part(CLOSE)))
    assert result["content"].startswith(f"<tools>\n{OWN_FORM[model]}")
    assert "toolgate_probe" not in result["content"]


# --- histories ---
HISTORIES = (
    *{probe for _, probes, _ in RULES for probe in probes},
    "suc2rrusuaucrus",
    "asucrcrauu",
)
UNRENDERED = {
    "fireworks-ai-llama-3-firefunction-v2": "it reads `functions`",
    "llama-cpp-deepseek-r1": "it is no template of transformers",
}
LOSSY = (
    "HuggingFaceTB-SmolLM3-3B",
    "LFM2-8B-A1B",
    "LFM2.5-Instruct",
    "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
    "ibm-granite-granite-3.3-2B-Instruct",
    "mistralai-Mistral-Nemo-Instruct-2407",
    "vllm-mistral",
    "vllm-mistral_parallel",
)
"""Templates that show no calls, or the system message in the last message of the user only."""


class Template:
    """Renders prompts of text, as vLLM's renderer does."""

    def __init__(self, source):
        self.source = source

    async def __call__(self, messages, tools):
        given = [_for_template(message) for message in messages]
        more = {"bos_token": "<s>", "eos_token": "</s>", "add_generation_prompt": True}
        [text], _ = render_jinja_template(
            [given], tools and [*tools], chat_template=self.source, **more
        )
        return str(text)


def _for_template(message):
    calls = [
        {
            **call,
            "function": {
                **call["function"],
                "arguments": json.loads(call["function"]["arguments"]),
            },
        }
        for call in message.get("tool_calls") or ()
    ]
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content)
    return {**message, "content": content or ""} | ({"tool_calls": calls} if calls else {})


def random_history(numbers):
    turns = ["s", "u", "a", "cr", "2rr", "uu", "aa"]
    return "".join(numbers.choices(turns, k=numbers.randrange(1, 9)))


@pytest.mark.parametrize("path", sorted(TEMPLATES.glob("*.jinja")), ids=lambda path: path.stem)
async def test_real_templates_show_all_texts_of_any_history_in_order(path):
    template = Template(path.read_text())
    form = await learnt(template)
    numbers = random.Random(7)
    failed = {}
    for letters in (
        *HISTORIES,
        *(random_history(numbers) for _ in range(repeats(8, nightly=300))),
    ):
        messages, _ = form.messages(conversation(letters))
        texts = re.findall(r"mark\d+", json.dumps(messages))
        given = re.findall(r"mark\d+", json.dumps(conversation(letters)))
        assert sorted(texts) == sorted(given), letters
        try:
            shown = re.findall(r"mark\d+", await template(messages, form.tools([KNOWN])))
        except Exception as error:  # noqa: BLE001  templates raise errors of any type
            failed[letters] = repr(error)
            continue
        if path.stem not in LOSSY and shown != texts:
            failed[letters] = f"{shown} {texts}"
    assert bool(failed) == (path.stem in UNRENDERED), failed


# --- turn start ---
TEXT_REASONING = Reasoning(begin="Thoughts:", end="Answer:")
USER = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


def turn_start(vocabulary, dialect):
    marks = vocabulary.marks
    made = make_vocabulary(vocabulary.tokenizer, vocabulary.size, marks.end_of_turn, dialect)
    return TurnStart(made)


@pytest.mark.parametrize("in_text", [False, True])
@pytest.mark.parametrize(
    ("turn", "mode", "start"),
    CASES["reasoning_starts_as_the_prompt_and_the_mode_require"],
)
def test_reasoning_starts_as_the_prompt_and_the_mode_require(
    vocabulary, turn, mode, start, in_text
):
    reasoning = TEXT_REASONING if in_text else Reasoning()
    turn = turn.replace("BEGIN", reasoning.begin).replace("END", reasoning.end)
    ids = vocabulary.tokenizer.encode(USER.format("Hi") + turn, add_special_tokens=False)
    found = turn_start(vocabulary, replace(QWEN3, reasoning=reasoning))
    assert found.reasoning(ids, mode) == start


def test_the_users_text_does_not_open_the_reasoning(vocabulary):
    found = turn_start(vocabulary, replace(QWEN3, reasoning=TEXT_REASONING))
    text = USER.format("Thoughts: hm").replace("<|im_end|>", "")
    ids = vocabulary.tokenizer.encode(text, add_special_tokens=False)
    assert found.reasoning(ids, "default") == "may"


def test_a_model_without_reasoning_does_not_reason(vocabulary):
    assert turn_start(vocabulary, HERMES).reasoning([1, 2], "default") == "closed"


def test_an_open_call_is_not_continued(vocabulary):
    found = turn_start(vocabulary, QWEN3)
    encode = vocabulary.tokenizer.encode
    whole = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    found.refuse_open_call(encode(USER.format("Hi") + whole, add_special_tokens=False))
    with pytest.raises(UnsupportedParameter) as refused:
        found.refuse_open_call(encode(USER.format("Hi") + whole[:30], add_special_tokens=False))
    assert refused.value.param == "continue_final_message"


HARMONY = (
    "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>analysis<|message|>So.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Yes.<|end|><|start|>user<|message|>Hm<|end|>"
    "<|start|>assistant"
)
CALL = '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a'


@pytest.mark.parametrize("in_text", [False, True])
@pytest.mark.parametrize(
    ("turn", "mode", "start"),
    CASES["messages_start_as_the_prompt_requires"],
)
def test_messages_start_as_the_prompt_requires(vocabulary, turn, mode, start, in_text):
    tokenizer = copy.deepcopy(vocabulary.tokenizer)
    if not in_text:
        marks = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>"]
        tokenizer.add_tokens([AddedToken(mark, special=True) for mark in marks])
    ends = vocabulary.marks.end_of_turn
    made = make_vocabulary(tokenizer, len(tokenizer) + 64, ends, DIALECTS["gpt_oss"])
    ids = tokenizer.encode(HARMONY + turn, add_special_tokens=False)
    found = TurnStart(made)
    assert found.reasoning(ids, mode) == start
    found.refuse_open_call(ids)
    call = tokenizer.encode(HARMONY + CALL, add_special_tokens=False)
    with pytest.raises(UnsupportedParameter):
        found.refuse_open_call(call)


TYPED = [each for each in DIALECTS.values() if each.content.begin and each.calls]


@pytest.mark.parametrize("dialect", TYPED, ids=lambda each: each.name)
def test_content_that_begins_with_a_mark_of_calls_is_continued(vocabulary, dialect):
    begun = USER.format("Hi") + dialect.content.turn + dialect.content.begin + "Yes, "
    ids = vocabulary.tokenizer.encode(begun, add_special_tokens=False)
    turn_start(vocabulary, dialect).refuse_open_call(ids)
