"""Content that is held to a schema, alone and beside tools."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from tests import tools
from tests.support.dialects.model import calls_in
from tests.support.effort import repeats
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.tokens.vocabulary import Vocabulary
from toolgate_core import grammar_key
from toolgate_core.deltas import ContentDelta
from toolgate_core.schema.canonical import TEXT, canonical_json
from toolgate_core.tools import text_format

from .test_automaton import SCHEMAS, segment, walk

MakeAutomaton = Callable[..., Automaton]
PERSON = tools.RETURN_JSON["function"]["parameters"]
FORMATS: dict[str, dict[str, Any]] = {
    "person": PERSON,
    "number": {"type": "number"},
    "list": {"type": "array", "items": {"type": "integer"}, "maxItems": 4},
    "enum": {"enum": [1, 12, "a", None]},
    "pattern": {"type": "object", "properties": {"x": {"type": "string", "pattern": "^[a-z]{3}$"}}},
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("reasoning", ["open", "must", "may", "closed"])
@pytest.mark.parametrize("choice", ["none", "auto"])
@pytest.mark.parametrize("name", FORMATS)
def test_content_or_calls_are_valid(
    automaton: MakeAutomaton, vocabulary: Vocabulary, choice: str, reasoning: str, name: str
) -> None:
    schema = FORMATS[name]
    machine = automaton(tools.ALL, schema, choice=choice, reasoning=reasoning)
    finished = called = 0
    for seed in range(repeats(6, nightly=12)):
        machine.reset()
        tokens, ended = walk(machine, vocabulary, seed)
        if not ended:
            continue
        finished += 1
        events = segment(vocabulary, tokens, ended, reasoning_open=reasoning == "open")
        content = "".join(e.text for e in events if isinstance(e, ContentDelta))
        found = calls_in(events)
        assert bool(content.strip()) != bool(found)
        called += bool(found)
        if not found:
            jsonschema.validate(json.loads(content), schema)
        for called_name, arguments in found:
            jsonschema.validate(json.loads(arguments), SCHEMAS[called_name])
    assert finished
    assert not called or choice == "auto"


@pytest.mark.parametrize(
    ("form", "pattern"),
    [
        ({"choice": ["yes", "no"]}, "yes|no"),
        # One is the beginning of another: it may end there, or go on.
        ({"choice": ["no", "nothing", "not at all"]}, "no|nothing|not at all"),
        ({"choice": ['"', "\n", "é🙂", "a/b\\c"]}, '"|\n|é🙂|a/b\\\\c'),
        ({"regex": "[a-c]+"}, "[a-c]+"),
        ({"regex": "[0-9]{3}-[0-9]{4}"}, "[0-9]{3}-[0-9]{4}"),
        ({"regex": "a/b|(x\n)*y"}, "a/b|(x\n)*y"),
    ],
    ids=str,
)
def test_content_matches_a_non_json_text_format(
    automaton: MakeAutomaton, vocabulary: Vocabulary, form: dict[str, Any], pattern: str
) -> None:
    [(kind, value)] = form.items()
    machine = automaton([], text_format(kind, value, param="structured_outputs"), choice="none")
    contents = set()
    for seed in range(30):
        machine.reset()
        tokens, ended = walk(machine, vocabulary, seed)
        if not ended:
            continue
        events = segment(vocabulary, tokens, ended)
        contents.add("".join(e.text for e in events if isinstance(e, ContentDelta)))
    assert contents
    assert all(re.fullmatch(pattern, content) for content in contents)
    if "choice" in form:
        assert contents == {*form["choice"]}


def test_response_format_allows_calls_but_no_free_text(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    machine = automaton([tools.WEATHER], PERSON, choice="auto")
    assert not machine.accept_tokens(vocabulary.encode("Well"))
    assert machine.validate_tokens([vocabulary.marks.tokens["<tool_call>"]])
    assert not machine.validate_tokens([*vocabulary.marks.end_of_turn])
    assert machine.accept_tokens(vocabulary.encode('{"'))
    assert not machine.validate_tokens([vocabulary.marks.tokens["<tool_call>"]])


def test_rollback_of_drafted_content_allows_a_call(
    automaton: MakeAutomaton, vocabulary: Vocabulary
) -> None:
    machine = automaton([tools.WEATHER], PERSON, choice="auto", reasoning="must")
    marks = vocabulary.marks
    think = [marks.tokens["<think>"], marks.tokens["</think>"], *vocabulary.encode("\n\n")]
    draft = [*think, *vocabulary.encode('{"answer": "x')]
    assert machine.accept_tokens(draft)
    machine.rollback(len(draft) - 1)
    assert machine.accept_tokens([*think[1:], marks.tokens["<tool_call>"]])
    machine.rollback(1)
    assert machine.accept_tokens(draft[len(think) :])


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"choice": ["yes", "no"]}, "ready"),
        ({"regex": "[a-z]+@[a-z]+"}, "ready"),
        ({"regex": "("}, "refused"),
        ({"regex": "(?=a)b"}, "refused"),
    ],
    ids=str,
)
def test_compiling_a_text_format_returns_a_verdict(
    vocabulary: Vocabulary, form: dict[str, Any], status: str
) -> None:
    compiler = Compiler.from_vocabulary(vocabulary, cache_bytes=2**26)
    parameters = canonical_json({TEXT: form})
    verdict = compiler.compile("key", grammar_key.CONTENT, parameters).verdict
    assert (verdict.status, verdict.residual, verdict.rewritten) == (status, (), None)
    assert (verdict.code == "schema_not_enforceable") is (status == "refused")
