"""Tools that are added in the messages are shown in the form of the model's template."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import jinja2
import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from tests.support.shared_data import TEMPLATES
from toolgate_backend.endpoint.added_tools import AddedTools, inserted
from toolgate_core.wire import ChatPrompt

CLOSE = {
    "type": "function",
    "function": {
        "name": "close_valve",
        "description": 'Close it, "now" & <here>.',
        "parameters": {"type": "object", "properties": {"room": {"type": "string"}}},
    },
}
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


class Template:
    """Renders prompts, as vLLM's renderer does."""

    def __init__(self, source: str) -> None:
        environment = jinja2.Environment()
        environment.filters["tojson"] = json.dumps
        self._template = environment.from_string(source)
        self.count = 0

    async def __call__(self, messages: Sequence[Any], tools: Sequence[Any] | None) -> str:
        self.count += 1
        return self._template.render(messages=messages, tools=tools)


def part(*tools: Any) -> dict[str, Any]:
    return {"type": "tool_definitions", "tools": [*tools]}


def prompt(*content: Any) -> ChatPrompt:
    result = {"role": "tool", "tool_call_id": "c1", "content": [*content]}
    return ChatPrompt(messages=({"role": "user", "content": "hi"}, result), tools=(OPEN,))


async def text_in(source: str, *tools: Any) -> str:
    _, result = await AddedTools(Template(source), ["<|tool|>", "<|end|>"]).shown(
        prompt(part(*tools))
    )
    content: str = result["content"]
    return content.removeprefix("<tools>\n").removesuffix("\n</tools>")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("a\nb\nEND", "a\nb\nc\nEND", "c"),
        ("[a]", "[a, b]", "b"),
        ("<t>a</t></ts>", "<t>a</t><t>b</t></ts>", "<t>b</t>"),
        ("{a}END", "{a}{b}END", "{b}"),
        ("a", "a", None),
        ("ab", "a", None),
        ("1 a", "2 ab", None),
        ("", "b", "b"),
    ],
)
def test_what_was_inserted(before: str, after: str, expected: str | None) -> None:
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
async def test_tools_have_the_form_of_the_template(source: str, expected: str) -> None:
    assert await text_in(source, CLOSE, OPEN) == expected


@pytest.mark.parametrize("source", [MARKED, COUNTED, "no tools", "{{ 1 / 0 }}"])
async def test_other_forms_become_lines_of_json(source: str) -> None:
    assert await text_in(source, CLOSE, OPEN) == f"{LINE_OF_CLOSE}\n{LINE_OF_OPEN}"


async def test_content_of_texts_becomes_one_text() -> None:
    text = {"type": "text", "text": "Found:"}
    tools = AddedTools(Template(TAGS), [])
    _, result = await tools.shown(prompt(text, part(CLOSE), part()))
    assert result["content"] == "Found:\n<tools>\n<t>close_valve</t>\n</tools>"
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}
    _, result = await tools.shown(prompt(image, part(CLOSE)))
    assert [each["type"] for each in result["content"]] == ["image_url", "text"]
    _, result = await tools.shown(prompt(part()))
    assert result["content"] == ""


async def test_messages_without_tools_stay() -> None:
    template = Template(LINES)
    given = prompt({"type": "text", "text": "a"}, {"type": "text", "text": "b"})
    assert await AddedTools(template, []).shown(given) == [*given.messages]
    assert template.count == 0


async def test_a_text_is_made_once() -> None:
    template = Template(LINES)
    tools = AddedTools(template, [])
    first = await tools.shown(prompt(part(CLOSE)))
    count = template.count
    assert await tools.shown(prompt(part(CLOSE))) == first
    assert template.count == count


async def test_a_timeout_is_no_other_form() -> None:
    async def late(_messages: Any, _tools: Any) -> str:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        await AddedTools(late, []).shown(prompt(part(CLOSE)))


OWN_FORM = {
    "GLM-4.6": '{"type": "function", "function": {"name": "close_valve"',
    "Kimi-K2-Instruct": '{"type": "function", "function": {"name": "close_valve"',
    "MiniMax-M2": '<tool>{"name": "close_valve"',
    "Qwen-Qwen3-0.6B": '{"type": "function", "function": {"name": "close_valve"',
    "Qwen3-Coder": "<function>\n<name>close_valve</name>",
    "deepseek-ai-DeepSeek-V3.2": '{"name": "close_valve"',
    "meta-llama-Llama-3.3-70B-Instruct": '{\n    "type": "function"',
    "openai-gpt-oss-120b": '// Close it, "now" & <here>.\ntype close_valve = (_: {',
}
"""By model: how its template writes a tool."""


@pytest.mark.parametrize("model", OWN_FORM)
async def test_forms_of_real_templates(model: str) -> None:
    path = TEMPLATES / f"{model}.jinja"
    if not path.exists():
        pytest.skip(f"{path} is not there")

    async def render(messages: Any, tools: Any) -> str:
        [text], _ = render_jinja_template([[*messages]], [*tools], chat_template=path.read_text())
        return str(text)

    _, result = await AddedTools(render, []).shown(prompt(part(CLOSE)))
    assert result["content"].startswith(f"<tools>\n{OWN_FORM[model]}")
    assert "toolgate_probe" not in result["content"]
