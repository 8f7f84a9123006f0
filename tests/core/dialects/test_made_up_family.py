"""The recipe "Add a dialect" of CONTRIBUTING.md: one definition, and everything else follows."""

import json
import random
import re
from pathlib import Path
from textwrap import dedent

import jsonschema
import pytest
from transformers.utils.chat_template_utils import render_jinja_template

from tests.models.family_template import chat_template
from tests.support.dialects.model import PARAMETERS, DialectModel, EndingChoice, calls_in
from tests.support.walker.walk import Enforced, walk
from toolgate_core.dialects.marks import end_texts, mark_texts
from toolgate_core.dialects.registry import DIALECTS, SHAPES, recognise
from toolgate_core.turn_text import parse

from .made_up_family import DEFINITION, SANDPIPER

RECIPE = Path(__file__).parents[3] / "CONTRIBUTING.md"
MARKS = pytest.mark.parametrize("marks", [(*mark_texts(SANDPIPER), "<|acted|>"), ()])
_CALL = re.compile(r"<\|act\|>([\w.-]+)#(\d+) with (.*?)<\|/act\|>", re.DOTALL)


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    """As if the definition were in `families.toml`."""
    monkeypatch.setitem(DIALECTS, SANDPIPER.name, SANDPIPER)


@pytest.fixture(scope="module")
def models():
    return {}


def model(models, marks):
    if marks not in models:
        models[marks] = DialectModel(SANDPIPER, marks)
    return models[marks]


def read(text):
    """The name, number and arguments of each call, by a reader that shares no code with ours."""
    section = re.fullmatch(r"<\|acts\|>(.*)<\|/acts\|>", text, re.DOTALL)
    assert section is not None, text
    found = list(_CALL.finditer(section[1]))
    assert ", then ".join(match.group() for match in found) == section[1]
    return [(match[1], int(match[2]), json.loads(match[3])) for match in found]


def walked(found, machine, seed):
    """Random tokens with a liking for ends; None if the turn did not end."""
    machine.reset()
    source = Enforced(machine, found.vocabulary.size)
    return source.tokens if walk(source, EndingChoice(found, random.Random(seed))) else None


def test_the_recipe_shows_the_definition_of_this_family():
    recipe = RECIPE.read_text().partition("## Add a dialect")[2]
    [shown] = re.findall(r"    ```toml\n(.*?)    ```", recipe, re.DOTALL)
    assert dedent(shown) == DEFINITION
    assert SANDPIPER.shape in SHAPES


def test_its_chat_template_is_recognised():
    found = recognise((), chat_template(SANDPIPER))
    assert found.dialect is SANDPIPER
    assert not found.warnings


@pytest.mark.parametrize("golden", SANDPIPER.goldens)
def test_a_turn_in_it_is_read(golden):
    parsed = parse(f"{golden.text}{end_texts(SANDPIPER)[0]}", SANDPIPER)
    assert (parsed.content, parsed.reasoning) == (golden.content or "", golden.reasoning or "")
    calls = [
        (call.name, json.loads(arguments), call.id)
        for call, arguments in zip(parsed.calls, parsed.arguments, strict=True)
    ]
    assert calls == [(call.name, call.arguments, call.id) for call in golden.calls]


@pytest.mark.exhaustive
@MARKS
def test_masks_enforce_its_calls(models, marks):
    found = model(models, marks)
    machine = found.automaton(choice="required")
    ended = several = 0
    for seed in range(24):
        tokens = walked(found, machine, seed)
        if tokens is None:
            continue
        calls = read(found.text(tokens))
        assert calls
        for number, (name, written, arguments) in enumerate(calls, start=5):
            jsonschema.validate(arguments, PARAMETERS[name])
            assert written == number  # the conversation has five earlier calls
        made = calls_in(found.segment(tokens, required=True))
        assert [(name, json.loads(text)) for name, text in made] == [(c[0], c[2]) for c in calls]
        ended += 1
        several += len(calls) > 1
    assert ended > 5
    assert several


@MARKS
def test_a_budget_ends_its_reasoning(models, marks):
    found = model(models, marks)
    thinking = found.automaton(choice="required", reasoning="must", reasoning_budget=4)
    for seed in range(6):
        written = walked(found, thinking, seed)
        if written is not None:
            thoughts, end, calls = found.text(written).partition("</reflect>\n")
            assert thoughts.startswith("<reflect>")
            assert end
            assert read(calls)


@pytest.mark.parametrize("golden", [each for each in SANDPIPER.goldens if each.calls])
def test_the_generated_template_writes_its_transcripts(golden):
    calls = [
        {"id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
        for call in golden.calls
    ]
    message = {
        "role": "assistant",
        "content": golden.content,
        "reasoning_content": golden.reasoning,
        "tool_calls": calls,
    }
    user = {"role": "user", "content": "Hi."}
    messages = [user, message]
    [[text], _] = render_jinja_template([messages], chat_template=chat_template(SANDPIPER))
    assert text.endswith(f"<|im_start|>assistant\n{golden.text}<|acted|>\n")
