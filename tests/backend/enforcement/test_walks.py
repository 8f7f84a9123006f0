"""Random turns in every dialect and made-up ones, under all choices of a request in pairs."""

import json
import random
import re
from itertools import groupby
from pathlib import Path

import pytest

from tests import tools
from tests.support.dialects.model import DialectModel
from tests.support.effort import repeats, rotating, sampled
from tests.support.grammars.custom_grammars import CASES
from tests.support.walker.shapes import SHAPES
from tests.support.walker.turns import Profile, Turns, model_of, profiles
from tests.support.walker.walk import Enforced, Hints, walk
from toolgate_core import grammar_key
from toolgate_core.custom_tools import CustomCalls, Grammar
from toolgate_core.deltas import CallEnd, CallStart, InputDelta
from toolgate_core.dialects.dialect import Json, Pythonic
from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import TEXT, canonical_json
from toolgate_core.tools import text_format
from toolgate_proxy.validation.grammar_reader import read_grammar

ROWS = json.loads(Path(__file__).with_name("walks.json").read_text())

FAMILIES = [name for name, dialect in DIALECTS.items() if dialect.calls]
ENDED = repeats(1, nightly=4)
"""Turns of each profile that must come to their end."""


def groups(names):
    """The profiles of each dialect and its marks."""
    for (name, marks), found in groupby(profiles(names), lambda each: (each.dialect, each.marks)):
        yield pytest.param([*found], id=f"{name}-{marks}")


def walk_all(found):
    for profile in found:
        turns, ended = Turns(profile), 0
        for seed in range(10 * ENDED):
            ended += turns.turn(seed).whole
            if ended == ENDED:
                break
        assert ended or "budget" in profile.limit, profile


@pytest.mark.exhaustive
@rotating("found", groups(FAMILIES), one_in=19)
def test_turns_of_families_are_those_of_the_request(found):
    walk_all(found)


@pytest.mark.exhaustive
@rotating("found", groups([*SHAPES]), one_in=7)
def test_turns_of_each_shape_are_those_of_the_request(found):
    walk_all(found)


@pytest.mark.exhaustive
@rotating("name", SHAPES, one_in=5)
def test_several_calls_follow_each_other_and_content_or_calls_follow_a_format(name):
    calls = SHAPES[name].dialect.calls
    turns = Turns(Profile(name))
    assert any(len(turns.turn(seed).calls) > 1 for seed in range(30)) == calls.parallel
    if not calls.only_at_start:
        turns = Turns(Profile(name, choice="auto", content="object"))
        made = (turns.turn(seed) for seed in range(30))
        kinds = set()
        while kinds != {True, False}:
            turn = next(made)
            if turn.whole:
                kinds.add(bool(turn.calls))


@rotating("name", SHAPES, one_in=3)
def test_no_call_without_permission(name):
    found = model_of(name, "tokens")
    machine = found.automaton(choice="none")
    if not SHAPES[name].dialect.calls.only_at_start:
        assert machine.accept_tokens(found.vocabulary.encode("Hello "))
    assert not machine.accept_tokens(found.vocabulary.literal_tokens(found.vocabulary.form.trigger))


@pytest.mark.parametrize(
    ("name", "form"), [("section", r"functions\.\w+:5"), ("array_with_ids", r"[A-Za-z0-9]{9}")]
)
def test_ids_in_the_text_are_the_ids_of_the_calls(name, form):
    turns = Turns(Profile(name, limit="one call"))
    turn = next(found for seed in range(30) if (found := turns.turn(seed)).whole)
    [start] = [each for each in turn.events if isinstance(each, CallStart)]
    assert re.fullmatch(form, start.id)
    assert start.id.rpartition(":")[2] in turns.model.text(turn.tokens)


def test_calls_and_content_have_their_own_end_tokens():
    found = model_of("named", "tokens")
    [called] = found.vocabulary.call_ends
    assert found.vocabulary.token_bytes[called] == b"<|called|>"
    assert found.vocabulary.added_ends == {called}
    machine = found.automaton(choice="auto")
    assert not machine.validate_tokens([called])
    content_end = min(found.vocabulary.content_ends)
    assert machine.validate_tokens([content_end])
    call = found.vocabulary.encode("get_weather"), found.vocabulary.encode('{"city": "x"}')
    marks = found.vocabulary.marks.tokens
    assert machine.accept_tokens([marks["[CALL]"], *call[0], marks["[ARGS]"], *call[1]])
    assert not machine.validate_tokens([content_end])
    assert machine.accept_tokens([called])
    assert machine.is_terminated()


# --- formats ---


@pytest.mark.parametrize(
    ("form", "pattern"),
    ROWS["content_matches_a_non_json_text_format"],
    ids=str,
)
def test_content_matches_a_non_json_text_format(automaton, vocabulary, form, pattern):
    [(kind, value)] = form.items()
    machine = automaton([], text_format(kind, value, param="structured_outputs"), choice="none")
    contents = set()
    for seed in range(30):
        machine.reset()
        source, dice = Enforced(machine, vocabulary.size), random.Random(seed)
        if walk(source, lambda allowed, dice=dice: int(dice.choice(allowed)), limit=60):
            contents.add(model_of("qwen3", "tokens").text(source.tokens))
    assert contents
    assert all(re.fullmatch(pattern, content) for content in contents)
    if "choice" in form:
        assert contents == {*form["choice"]}


def test_response_format_allows_calls_but_no_free_text(automaton, vocabulary):
    person, marks = tools.RETURN_JSON["function"]["parameters"], vocabulary.marks
    machine = automaton([tools.WEATHER], person, choice="auto", reasoning="must")
    think = [marks.tokens["<think>"], marks.tokens["</think>"], *vocabulary.encode("\n\n")]
    assert machine.accept_tokens(think)
    assert not machine.accept_tokens(vocabulary.encode("Well"))
    assert machine.validate_tokens([marks.tokens["<tool_call>"]])
    assert not machine.validate_tokens([*marks.end_of_turn])
    draft = vocabulary.encode('{"answer": "x')
    assert machine.accept_tokens(draft)
    assert not machine.validate_tokens([marks.tokens["<tool_call>"]])
    machine.rollback(len(draft) + len(think) - 1)
    assert machine.accept_tokens([*think[1:], marks.tokens["<tool_call>"]])
    machine.rollback(1)
    assert machine.accept_tokens(draft)


@pytest.mark.parametrize(
    ("form", "status"),
    ROWS["compiling_a_text_format_returns_a_verdict"],
    ids=str,
)
def test_compiling_a_text_format_returns_a_verdict(form, status):
    compiler = model_of("qwen3", "tokens").compiler
    verdict = compiler.compile("key", grammar_key.CONTENT, canonical_json({TEXT: form})).verdict
    assert (verdict.status, verdict.residual, verdict.rewritten) == (status, (), None)
    assert (verdict.code == "schema_not_enforceable") is (status == "refused")


# --- custom tools ---

MARKS_ARE_TOKENS = {"qwen3": True, "qwen3_coder": False, "gemma4": True, "llama4_pythonic": False}
WHOLE = repeats(1, nightly=100)
LIMIT = 260
"""Maximum number of tokens of a call of a custom tool."""


def inputs(model, case, seed):
    """The inputs of the calls of one turn, as a client gets them; None if it did not end."""
    codec, dice = model.vocabulary.form.codec, random.Random(seed)

    def tokens(texts):
        if isinstance(codec, Json | Pythonic):
            texts = [json.dumps(text, ensure_ascii=False)[1:-1] for text in texts]
        return [model.vocabulary.encode(text) for text in texts]

    closers = [model.vocabulary.encode('"}')] if isinstance(codec, Json) else model.closers
    choose = Hints(model, dice, tokens(case.hints), tokens(case.ends), closers)
    machine = model.automaton(choice="required", max_calls=1)
    source = Enforced(machine, model.vocabulary.size)
    if not walk(source, choose, LIMIT):
        return None
    splits = [dice.randrange(len(source.tokens)) for _ in range(4)]
    segmented = model.segment(source.tokens, splits, required=True)
    events = [*CustomCalls([case.name]).converted(segmented)]
    found = []
    for event in events:
        if isinstance(event, CallStart):
            assert event.custom
            found.append("")
        elif isinstance(event, InputDelta):
            found[-1] += event.text
    assert sum(isinstance(event, CallEnd) for event in events) == len(found) == 1
    return found


@pytest.mark.exhaustive
@sampled("name, dialect", [case.name for case in CASES], MARKS_ARE_TOKENS, one_in=9)
def test_every_input_of_a_custom_tool_matches_its_grammar(name, dialect):
    """As independent parsers say."""
    case = next(case for case in CASES if case.name == name)
    tokens = mark_texts(DIALECTS[dialect]) if MARKS_ARE_TOKENS[dialect] else ()
    model = DialectModel(DIALECTS[dialect], tokens, [case.tool])
    matches = None
    if case.syntax != "text":
        matches = read_grammar(Grammar(case.syntax, case.definition))
    ended = 0
    for seed in range(3 * WHOLE):
        found = inputs(model, case, seed)
        for text in found or ():
            assert case.accepts(text), text
            assert matches is None or matches(text), text
        ended += found is not None
        if ended == WHOLE:
            return
    assert ended
