"""Content that is held to a schema, alone and beside tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from tests import tools
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.vocabulary import Vocabulary
from toolgate_core.segmenter import ContentDelta

from .test_automaton import SCHEMAS, calls, segment, walk

MakeAutomaton = Callable[..., Automaton]
PERSON = tools.RETURN_JSON["function"]["parameters"]
FORMATS: dict[str, dict[str, Any]] = {
    "person": PERSON,
    "number": {"type": "number"},
    "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 4},
    "enum": {"enum": [1, 12, "a", None]},
    "pattern": {"type": "object", "properties": {"x": {"type": "string", "pattern": "^[a-z]{3}$"}}},
}


@pytest.mark.parametrize("reasoning", ["open", "must", "may", "closed"])
@pytest.mark.parametrize("choice", ["none", "auto"])
@pytest.mark.parametrize("name", FORMATS)
def test_the_content_is_valid_or_the_calls_are(
    automaton: MakeAutomaton, vocabulary: Vocabulary, choice: str, reasoning: str, name: str
) -> None:
    schema = FORMATS[name]
    machine = automaton(tools.ALL, schema, choice=choice, reasoning=reasoning)
    finished = called = 0
    for seed in range(12):
        machine.reset()
        tokens, ended = walk(machine, vocabulary, seed)
        if not ended:
            continue
        finished += 1
        events = segment(vocabulary, tokens, ended, reasoning_open=reasoning == "open")
        content = "".join(e.text for e in events if isinstance(e, ContentDelta))
        found = calls(events)
        assert bool(content.strip()) != bool(found)
        called += bool(found)
        if not found:
            jsonschema.validate(json.loads(content), schema)
        for called_name, arguments in found:
            jsonschema.validate(json.loads(arguments), SCHEMAS[called_name])
    assert finished
    assert not called or choice == "auto"


def test_beside_a_format_a_call_can_come_and_no_loose_text(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    machine = automaton([tools.WEATHER], PERSON, choice="auto")
    assert not machine.accept_tokens(vocabulary.encode("Well"))
    assert machine.validate_tokens([vocabulary.marks.call_begin])
    assert not machine.validate_tokens([*vocabulary.marks.end_of_turn])
    assert machine.accept_tokens(vocabulary.encode('{"'))
    assert not machine.validate_tokens([vocabulary.marks.call_begin])


def test_what_was_drafted_into_content_is_undone(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    machine = automaton([tools.WEATHER], PERSON, choice="auto", reasoning="must")
    marks = vocabulary.marks
    think = [marks.reasoning_begin, marks.reasoning_end, *vocabulary.encode("\n\n")]
    draft = [*think, *vocabulary.encode('{"answer": "x')]
    assert machine.accept_tokens(draft)
    machine.rollback(len(draft) - 1)
    assert machine.accept_tokens([*think[1:], marks.call_begin])
    machine.rollback(1)
    assert machine.accept_tokens(draft[len(think) :])
