"""Values that masks allow are exactly those of the schema."""

import json
import re
from collections import Counter
from datetime import date, datetime
from functools import lru_cache
from pathlib import Path
from random import Random

import jsonschema_rs
import llguidance
import pytest

from tests.support.dialects.codec_walks import CodecModel
from tests.support.effort import repeats, sampled
from tests.support.schemas.javascript import JavaScript, random_pattern, random_texts, sample_of
from toolgate_backend.errors import GrammarRefused
from toolgate_backend.grammars.codecs.raw_strings import whole_text
from toolgate_backend.grammars.engines import xgrammar_members
from toolgate_backend.grammars.offline import compiler_of, verdicts
from toolgate_backend.grammars.read_back import misread
from toolgate_core import grammar_key
from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS, REPRESENTATIVES
from toolgate_core.schema.canonical import canonical_json, canonical_parameters, canonical_schema
from toolgate_core.schema.patterns import is_maskable
from toolgate_proxy.validation.validator import Validator

CASES = json.loads(Path(__file__).with_name("values.json").read_text())

# --- contradictions ---
UNSATISFIABLE = CASES["unsatisfiable"]
WITHOUT_TEXT = CASES["without_text"]
FORMS = ["qwen3", "glm47", "qwen3_coder", "gemma4", "lfm2_5"]


def verdict(compiler, given, *required):
    properties = {"a": given, "b": {"type": "null"}}
    schema = {"type": "object", "properties": properties, "required": [*required]}
    text = canonical_json(canonical_parameters(schema))
    return compiler.compile("k", "f", text).verdict


@pytest.mark.parametrize("given", UNSATISFIABLE)
def test_keywords_that_contradict_each_other_are_refused_with_their_place(compiler, given):
    for each in (compiler, *map(compiler_of, FORMS)):
        found = verdict(each, given, "a")
        assert (found.status, found.code) == ("refused", "schema_not_enforceable")
        assert found.pointer is not None
        assert found.pointer.startswith("/properties/a")
        assert verdict(each, given).status == "ready"


@pytest.mark.parametrize("dialect", FORMS)
@pytest.mark.parametrize("given", WITHOUT_TEXT)
def test_a_string_without_a_text_is_refused_where_it_is_required(dialect, given):
    found = verdict(compiler_of(dialect), given, "a")
    assert (found.status, found.code) == ("refused", "schema_not_enforceable")
    if dialect != "lfm2_5":
        assert verdict(compiler_of(dialect), given).status == "ready"


# --- dates ---
DAYS = CASES["days"]
TIMES = {f"{day}T12:00:00Z": valid for day, valid in DAYS.items()}


def schema_of(**member):
    properties = {"d": {"type": "string", **member}}
    return {"type": "object", "properties": properties, "required": ["d"]}


@pytest.mark.parametrize(("name", "texts"), [("date", DAYS), ("date-time", TIMES)])
def test_masks_and_validation_accept_exactly_the_dates_of_python(judge, name, texts):
    schema = schema_of(format=name)
    judged = judge.judge(schema, [(None, {"d": text}) for text in texts])
    assert judged.outcome == "masked"
    validator = Validator(canonical_schema(schema, param="schema"))
    for (text, valid), instance in zip(texts.items(), judged.instances, strict=True):
        assert instance.taken == valid, text
        assert (validator.check(f'{{"d": "{text}"}}', unique=True) is None) == valid, text
        if valid:
            assert date.fromisoformat(text) if name == "date" else datetime.fromisoformat(text)


def test_the_year_zero_is_allowed_without_a_format(judge):
    judged = judge.judge(schema_of(enum=["0000-01-01"]), [(None, {"d": "0000-01-01"})])
    assert judged.instances[0].taken


# --- exact values ---
TEXT = {"type": "string", "maxLength": 2}


INTEGERS = CASES["integers"]
COUNTS = CASES["counts"]


@lru_cache
def model(dialect, name="f"):
    return CodecModel(DIALECTS[dialect], mark_texts(DIALECTS[dialect]), name)


def parameters(*required, **properties):
    return {"type": "object", "properties": properties, "required": [*required]}


@pytest.mark.parametrize("is_content", [False, True], ids=["call", "content"])
@pytest.mark.parametrize("more", [{}, {"text": TEXT}], ids=["alone", "beside"])
@pytest.mark.parametrize(("given", "valid", "invalid"), [*INTEGERS, *COUNTS])
def test_masks_of_json_allow_exactly_the_values_of_the_schema(
    given, valid, invalid, more, is_content
):
    found = model("qwen3", grammar_key.CONTENT if is_content else "f")
    listed = {"type": "array", "items": given, "maxItems": 1}
    verdict, grammar = found.verdict(parameters("v", "l", v=given, l=listed, **more))
    assert grammar is not None
    assert not verdict.residual
    for value in (*valid, *invalid):
        for arguments in ({"v": value, "l": []}, {"v": valid[0], "l": [value]}):
            assert found.accepts(grammar, json.dumps(arguments)) == (value in valid)


@pytest.mark.exhaustive
@sampled(
    "schema, dialect",
    [
        *(parameters("v", v=given, text=TEXT, n={"type": "null"}) for given, _, _ in INTEGERS),
        *(given for given, _, _ in COUNTS[:4]),
    ],
    ["glm47", "deepseek_v32", "gemma4", "lfm2_5", "minimax_m3"],
    one_in=7,
)
def test_calls_have_exactly_the_values_of_the_schema(schema, dialect):
    found = model(dialect)
    verdict, grammar = found.verdict(schema)
    assert grammar is not None
    assert not verdict.residual
    texts = [found.walk(grammar, seed) for seed in range(4)]
    values = [json.loads(found.parsed(schema, each)) for each in texts if each is not None]
    assert values
    assert all(jsonschema_rs.is_valid(schema, value) for value in values)


# --- white space ---
DISPUTED = "\x1c\x1d\x1e\x1f\x85\ufeff"
CERTAIN = "\t\n\v\f\r \xa0\u1680\u2003\u2028\u2029\u202f\u205f\u3000aZ0_-é北\u200b"


@pytest.mark.parametrize("pattern", [r"^\S$", r"^\s$", r"^[^\s,]$", r"^[\s-]$", r"^a?\S$"])
def test_the_value_of_a_pattern(judge, pattern):
    schema = {
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": pattern}},
        "required": ["a"],
    }
    values = DISPUTED + CERTAIN
    judged = judge.judge(schema, [(None, {"a": value}) for value in values])
    assert judged.outcome == "masked"
    for value, instance in zip(values, judged.instances, strict=True):
        valid = re.search(pattern, value) is not None
        valid &= jsonschema_rs.is_valid(schema, {"a": value})
        assert instance.taken == (valid and value not in DISPUTED), hex(ord(value))


def test_a_name_has_no_disputed_characters(judge):
    schema = {
        "type": "object",
        "patternProperties": {r"^\S$": {"type": "integer"}},
        "additionalProperties": False,
    }
    instances = [{name: value} for name in "a\x1e\ufeff " for value in (1, "b")]
    judged = judge.judge(schema, [(None, instance) for instance in instances])
    assert judged.outcome == "masked"
    for instance, found in zip(instances, judged.instances, strict=True):
        valid = jsonschema_rs.is_valid(schema, instance)
        assert found.taken == (valid and not {*DISPUTED} & {*"".join(instance)}), instance


# --- one value ---
OTHERS = CASES["others"]
LOCAL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]"
ZOD_EMAIL = LOCAL + r"@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"


def residual(dialect, properties):
    parameters = canonical_parameters({"type": "object", "properties": properties})
    (verdict,) = verdicts(dialect, [{"name": "tool", "parameters": parameters}])
    assert verdict.status == "ready", verdict.reason
    return {each.pointer for each in verdict.residual}


@pytest.mark.parametrize("dialect", REPRESENTATIVES.values())
@pytest.mark.parametrize(
    "bad", [{"pattern": r"\bword\b"}, {"pattern": r"^(a|b)\1$"}, {"pattern": "^(/?a+($|/))*$"}]
)
def test_one_bad_pattern_takes_its_own_mask(dialect, bad):
    properties = {**OTHERS, "bad": {"type": "string", **bad}}
    assert residual(dialect, properties) == {"/properties/bad/pattern"}


@pytest.mark.parametrize("dialect", REPRESENTATIVES.values())
def test_values_that_are_too_large_together_take_their_own_masks(dialect):
    large = {"type": "string", "pattern": r"^(?:[a-z]{0,40}\d){2,40}x$", "maxLength": 99}
    large["allOf"] = [{"pattern": "^(?:[a-c]?[^a-c]{0,50}[a-c]){2,50}$"}]
    found = residual(dialect, {**OTHERS, "bad": large})
    assert {each.rpartition("/bad/")[0] for each in found} <= {"/properties"}


@pytest.mark.parametrize("dialect", REPRESENTATIVES.values())
def test_a_format_beside_a_pattern_stays_masked(dialect):
    mail = {"type": "string", "format": "email"}
    assert not residual(dialect, {"mail": mail | {"pattern": ZOD_EMAIL}})
    assert not residual(dialect, {"mail": {"type": "string", "pattern": ZOD_EMAIL}})
    assert not residual(dialect, {"mail": mail})
    assert not residual(dialect, {"mail": mail | {"pattern": ZOD_EMAIL, "maxLength": 60}})


def test_patterns_of_names_that_overlap_are_left_to_validation():
    """Engines need patterns that exclude each other."""
    text = {"type": "string"}
    names = {"type": "object", "patternProperties": {"^a": text, "b$": {"minLength": 2}}}
    found = residual("qwen3", {**OTHERS, "map": {**names, "additionalProperties": False}})
    assert found == {"/properties/map/patternProperties", "/properties/map/additionalProperties"}


# --- read back ---
TEXTS = [
    *("código", "día", "größe1", "référence", "Straße", "\xe9" * 3 + "f", "a\x85b", "a\u2028b"),
    *("e\u0301a", "\u202eשלום1", "北京a", "🙂a", "x.y", 'q"\\xe9a', "\\u00e9b", "a\nb", "ó\xff09"),
]


@pytest.fixture(scope="module")
def qwen3():
    return CodecModel(DIALECTS["qwen3"])


def listed(text, **more):
    properties = {text: {"type": "string", "enum": [text, "other"]}}
    return {"type": "object", "properties": properties, "required": [text], **more}


@pytest.mark.parametrize("engine", ["xgrammar", "llguidance"])
@pytest.mark.parametrize("text", TEXTS)
def test_names_and_listed_values_are_those_of_the_schema(qwen3, text, engine):
    schema = listed(text) | ({} if engine == "xgrammar" else {"additionalProperties": {}})
    verdict, grammar = qwen3.verdict(schema)
    assert grammar is not None
    assert verdict.engine == engine
    changed = text[:-1] + chr(ord(text[-1]) ^ 1)
    for name, value in [(text, text), (text, changed), (changed, text)]:
        written = json.dumps({name: value}, ensure_ascii=False)
        assert qwen3.accepts(grammar, written) == (name == value)


@pytest.mark.parametrize("text", ["código", "größe1"])
def test_llguidance_compiles_what_xgrammar_misreads(qwen3, monkeypatch, text):
    monkeypatch.setattr(xgrammar_members, "_MISREAD", re.compile("(?!)"))
    schema = listed(text, description="not in a cache")
    verdict, grammar = qwen3.verdict(schema)
    assert grammar is not None
    assert (verdict.engine, verdict.rewritten is None) == ("llguidance", False)
    assert "misreads" in str(verdict.reason)
    assert qwen3.accepts(grammar, json.dumps({text: text}, ensure_ascii=False))


@pytest.mark.parametrize(
    ("accepted", "found"), CASES["wrongly_accepted_and_refused_values_are_found"]
)
def test_wrongly_accepted_and_refused_values_are_found(accepted, found):
    schema = {"type": "object", "properties": {"x.y": {"const": "b.c"}}, "required": ["x.y"]}
    assert [*misread(schema, accepted.__contains__)] == found


# --- javascript masks ---
ROUNDS = repeats(60, nightly=10_000)


@pytest.fixture(scope="module")
def byte_compiler():
    return compiler_of("qwen3")


def takes(matcher, text):
    """The ids of the tokens are their bytes."""
    return all(map(matcher.accept, text.encode())) and matcher.complete


def taken_as_json(byte_compiler, pattern, texts):
    """None if masks don't enforce the pattern."""
    parameters = canonical_parameters(
        {
            "type": "object",
            "properties": {"a": {"type": "string", "pattern": pattern}},
            "required": ["a"],
        }
    )
    made = byte_compiler.compile("", grammar_key.CONTENT, canonical_json(parameters))
    if made.verdict.residual:
        return None
    if made.grammar is None and 'is not a "regex"' in (made.verdict.reason or ""):
        assert not is_maskable(pattern)  # the validator cannot read it either
        return None
    if made.grammar is None:
        reasons = ("nsatisfiable", "No value", "No string matches the pattern")
        assert any(reason in (made.verdict.reason or "") for reason in reasons)
        return [False] * len(texts)
    written = (json.dumps({"a": text}, ensure_ascii=False) for text in texts)
    return [takes(made.grammar.matcher(), text) for text in written]


def taken_as_raw_text(pattern, texts):
    tokenizer = llguidance.LLTokenizer("byte")
    lark = f'start: TEXT\nTEXT: "<" /{whole_text(pattern)}/ ">"'
    found = []
    for text in texts:
        matcher = llguidance.LLMatcher(tokenizer, lark, log_level=0)
        assert not matcher.is_error(), (pattern, matcher.get_error())
        written = f"<{text}>".encode()
        found.append(
            matcher.try_consume_tokens([*written]) == len(written) and matcher.is_accepting()
        )
    return found


@pytest.mark.exhaustive
def test_random_patterns(byte_compiler):
    javascript, random = JavaScript(), Random(262)
    seen = Counter()
    for _ in range(ROUNDS):
        pattern = random_pattern(random, depth=2)
        samples = filter(None, (sample_of(pattern, at) for at in range(2)))
        texts = [*random_texts(random, 6), *samples]
        reading = javascript.reading(pattern, texts)
        if reading is None or not reading.unicode:  # the validator's test has the others
            continue
        seen["valid"] += 1
        taken = taken_as_json(byte_compiler, pattern, texts)
        if taken is None:
            seen["residual"] += 1
        else:
            assert taken == reading.found, (pattern, texts)
        try:
            assert taken_as_raw_text(pattern, texts) == reading.found, (pattern, texts)
            seen["raw"] += 1
        except GrammarRefused:
            assert not is_maskable(pattern), pattern
    assert seen["raw"] > seen["valid"] / 2
    assert seen["residual"] < seen["valid"] / 3


@pytest.mark.parametrize(("pattern", "matched", "other"), CASES["masks_of_a_pattern"])
def test_masks_of_a_pattern(byte_compiler, pattern, matched, other):
    assert taken_as_json(byte_compiler, pattern, [matched, other]) == [True, False]
