"""Both engines behind the seam: which compiles what, and what they accept."""

import json
import threading
import time
from pathlib import Path

import jsonschema
import llguidance
import numpy as np
import pytest

from tests import tools
from tests.backend.grammars.kit import ENDLESS_LARK, model
from toolgate_backend.errors import BackendError, GrammarRefused
from toolgate_backend.grammars.engines import llguidance_matcher
from toolgate_backend.grammars.engines.choice import MAX_OPTIONAL_PROPERTIES, fallback_choices
from toolgate_backend.grammars.engines.engine import MAX_PREFIX_BYTES, CompiledGrammar
from toolgate_backend.grammars.engines.llguidance_engine import LLGuidanceEngine
from toolgate_backend.grammars.engines.llguidance_matcher import (
    FreshMatcher,
    matchers_of,
    new_matcher,
)
from toolgate_backend.tokens.call_form import CallForm
from toolgate_backend.tokens.masks import words_per_row
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import canonical_parameters
from toolgate_core.schema.closed_objects import close_objects

CASES = json.loads(Path(__file__).with_name("engines.json").read_text())


# --- choice ---
def choose(parameters):
    return next(fallback_choices(parameters, lambda _: True))


def engine(properties, **more):
    return choose(canonical_parameters({"properties": properties, **more})).engine


@pytest.mark.parametrize("schema", CASES["the_sound_subset_is_compiled_by_xgrammar"])
def test_the_sound_subset_is_compiled_by_xgrammar(schema):
    assert engine({"a": schema}) == "xgrammar"


@pytest.mark.parametrize("schema", CASES["other_schemas_are_compiled_by_llguidance"])
def test_other_schemas_are_compiled_by_llguidance(schema):
    assert engine({"a": schema}) == "llguidance"


def test_many_optional_properties_are_compiled_by_llguidance():
    many = {f"p{i}": {"type": "null"} for i in range(MAX_OPTIONAL_PROPERTIES + 1)}
    assert engine(many) == "llguidance"
    assert engine(many, required=list(many)) == "xgrammar"


def test_the_reason_names_the_deciding_keyword_and_pointer():
    choice = choose(canonical_parameters(tools.TAGS["function"]["parameters"]))
    assert choice.reason == "'maxLength' with type 'string' at /properties/tags/items"


# --- engines ---
SCHEMA = canonical_parameters(
    {
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2},
        },
        "required": ["city"],
    }
)
FORM = CallForm(DIALECTS["qwen3"], {"<tool_call>": 1, "</tool_call>": 2})
ENGINES = ["xgrammar", "llguidance"]


def takes(engine, vocabulary, arguments):
    """Whether the whole call text with these arguments is accepted, and ends the grammar."""
    matcher = engine.compile(FORM, "look_up", SCHEMA).matcher()
    before, after = FORM.grammar_texts("look_up")
    ids = vocabulary.encode(before + arguments + after)
    return all(matcher.accept(token) for token in ids) and matcher.finished


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("arguments", CASES["valid_arguments_are_accepted"])
def test_valid_arguments_are_accepted(engines, vocabulary, name, arguments):
    jsonschema.validate(json.loads(arguments), SCHEMA)
    assert takes(engines[name], vocabulary, arguments)


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("arguments", CASES["invalid_arguments_are_rejected"])
def test_invalid_arguments_are_rejected(engines, vocabulary, name, arguments):
    assert not takes(engines[name], vocabulary, arguments)


@pytest.mark.parametrize("schema", CASES["llguidance_refuses_what_it_cannot_enforce"])
def test_llguidance_refuses_what_it_cannot_enforce(engines, schema):
    with pytest.raises(GrammarRefused):
        engines["llguidance"].compile(
            FORM, "x", canonical_parameters({"properties": {"x": schema}})
        )


def test_objects_with_named_properties_are_closed():
    schema = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {}}}}}
    closed = close_objects(schema)
    assert closed["additionalProperties"] is False
    assert closed["properties"]["a"]["additionalProperties"] is False


@pytest.mark.parametrize("schema", CASES["objects_that_need_other_properties_stay_open"])
def test_objects_that_need_other_properties_stay_open(schema):
    assert close_objects(schema) == schema


@pytest.mark.parametrize("name", ENGINES)
def test_forced_text_may_end_inside_a_multibyte_character(engines, vocabulary, name):
    """д and н begin with the same byte."""
    answer = {"type": "string", "enum": ["да", "нет"]}
    first, second = (
        canonical_parameters({"properties": properties, "required": list(properties)})
        for properties in ({"answer": answer}, {"a": {"type": "boolean"}, "answer": answer})
    )
    before, _ = FORM.grammar_texts("reply")
    head = engines[name].compile(FORM, "reply", first).fixed_prefix
    assert head == (before + '{"answer": "').encode() + b"\xd0"
    matcher = engines[name].compile(FORM, "reply", second).matcher()
    written = before + '{"a": true, "answer": "'
    assert all(matcher.accept(token) for token in vocabulary.encode(written))
    assert matcher.forced() == b"\xd0"


@pytest.mark.parametrize("pattern", ["^$", "[^\\x00-\\U0010FFFF]"])
def test_a_regex_without_a_possible_first_character_is_refused(engines, pattern):
    llguidance = engines["llguidance"]
    assert isinstance(llguidance, LLGuidanceEngine)
    with pytest.raises(GrammarRefused):
        llguidance.compile_text({"regex": pattern})
    llguidance.compile_text({"regex": "a?"})  # not empty, since content is never


@pytest.mark.parametrize("name", ENGINES)
def test_the_fixed_prefix_of_a_long_constant_is_truncated(engines, name):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "const": "x" * 5_000}},
        "required": ["a"],
        "additionalProperties": False,
    }
    head = engines[name].compile(FORM, "tool", schema).fixed_prefix
    assert head.startswith(b'\n{"name": "tool", "arguments": {"a": "xxx')
    assert len(head) == MAX_PREFIX_BYTES


def test_a_matcher_that_exceeds_a_limit_does_not_break_later_ones(engines, vocabulary, monkeypatch):
    """Copies share a lexer, which keeps its error."""
    monkeypatch.setattr(llguidance_matcher, "PAUSE_SECONDS", 60)
    engine = engines["llguidance"]
    assert isinstance(engine, LLGuidanceEngine)
    grammar = CompiledGrammar(matchers_of(lambda: new_matcher(engine._tokenizer, ENDLESS_LARK)))
    row = np.empty(words_per_row(vocabulary.size), dtype=np.int32)
    matcher, failed = grammar.matcher(), False
    for token in vocabulary.encode("x</p>x\n</p" + "\n" * 40):
        try:
            matcher.fill(row)
        except BackendError:
            failed = True
            break
        assert matcher.accept(token)
    assert failed, "the grammar no longer exceeds a limit: find another"
    other = grammar.matcher()
    other.fill(row)
    assert other.accept(vocabulary.encode("x")[0])


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize(("draft", "text"), [('["', '{"'), ('{"', '["')])
def test_the_mask_after_a_rollback_is_that_of_a_matcher_without_drafts(
    engines, vocabulary, name, draft, text
):
    """llguidance takes the parser's rows of an earlier mask for those of other tokens."""
    parameters = canonical_parameters({"properties": {"any": {"type": "object"}}})
    compiled = engines[name].compile(FORM, "look_up", parameters)
    before, _ = FORM.grammar_texts("look_up")
    drafting, other = compiled.matcher(), compiled.matcher()
    rows = np.zeros((2, words_per_row(vocabulary.size)), dtype=np.int32)
    for token in vocabulary.encode(before + '{"any": {"tags": '):
        assert drafting.accept(token)
        assert other.accept(token)
    drafts = vocabulary.encode(draft)
    assert all(map(drafting.accept, drafts))
    drafting.fill(rows[0])
    drafting.rollback(len(drafts))
    for token in vocabulary.encode(text):
        assert drafting.accept(token)
        assert other.accept(token)
    drafting.fill(rows[0])
    other.fill(rows[1])
    assert np.array_equal(rows[0], rows[1])


# --- fresh matcher ---
def make():
    tokenizer = model("qwen3").compiler._llguidance._tokenizer
    return llguidance.LLMatcher(tokenizer, 'start: "a"', log_level=0)


def test_a_small_grammar_is_compiled_at_once(monkeypatch):
    monkeypatch.setattr(llguidance_matcher, "PAUSE_SECONDS", 60)
    made = []

    def count():
        made.append(make())
        return made[-1]

    fresh = FreshMatcher(count)
    fresh.renew()
    assert len(made) == 2
    assert fresh.copy().compute_ff_bytes() == b"a"


def test_a_large_grammar_is_compiled_while_others_go_on(monkeypatch):
    monkeypatch.setattr(llguidance_matcher, "PAUSE_SECONDS", 0)
    compiled = threading.Event()
    compiled.set()
    times = 0

    def slowly():
        nonlocal times
        times += 1
        assert compiled.wait(60)
        return make()

    fresh = FreshMatcher(slowly)
    compiled.clear()
    fresh.renew()
    fresh.renew()  # by another copy of the same lexer
    with pytest.raises(BackendError, match="compiled again"):
        fresh.copy()
    compiled.set()
    for _ in range(600):
        try:
            copy = fresh.copy()
            break
        except BackendError:
            time.sleep(0.05)
    assert copy.compute_ff_bytes() == b"a"
    assert times == 2
