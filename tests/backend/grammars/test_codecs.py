"""Arguments in each form of calls: what their grammars accept, refuse and leave to validation."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

import jsonschema
import jsonschema_rs
import pytest

from tests.support.dialects.codec_schemas import CODEC_SCHEMAS
from tests.support.dialects.codec_walks import CodecModel
from tests.support.dialects.text_reader import arguments_of
from tests.support.effort import repeats, sampled
from toolgate_backend.errors import GrammarRefused
from toolgate_backend.grammars.codecs.nodes import declared_members, further_members
from toolgate_backend.grammars.codecs.rules import MAX_LENGTH, GrammarRules
from toolgate_core.dialects.dialect import (
    ARGUMENTS,
    NAME,
    Calls,
    Codec,
    Dialect,
    FlatTags,
    GemmaValues,
    NestedTags,
    Pythonic,
)
from toolgate_core.schema.patterns import matches
from toolgate_core.schema.preparation.engine_form import has_readable_names

# --- forms ---
Q = '<|"|>'
NS = "]<]minimax[>["
CASES = json.loads(Path(__file__).with_name("codecs.json").read_text().replace("§", NS))
GLM_MARKS = ("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "</tool_call>")
DSML_TYPES = tuple(
    (kind, "true" if kind == "string" else "false")
    for kind in ("string", "integer", "number", "boolean", "null", "array", "object")
)
K3_TYPES = tuple(
    (kind, {"integer": "number"}.get(kind, kind))
    for kind in ("string", "integer", "number", "boolean", "null", "array", "object")
)
TAGGED_HOSTILE = ("null", "5", "true", "\n", "{", "[", " ", '"', "日本", "]]>", "<![CDATA[")
GEMMA_HOSTILE = (
    '"', "'", "\\", "<|", "<esc", ",", ":", "}", "]", "{", "[", "\n", "日本", "🎉", ",a:", "null",
    "true", "-", "a:", "{}", "[]", "}}",
)  # fmt: skip
NESTED_HOSTILE = (
    NS, NS, NS + "</", "]<]minimax[>", "]<]", "</a>", "<item>", "</item>", "<", ">", "]", "\n", " ",
    '"', "日本", "🎉", "null", "true", "5", "{", "[", "-",
)  # fmt: skip
PYTHONIC_HOSTILE = (
    "'", '"', "\\", "\\'", '\\"', ")", ")]", ", ", "', a=1", '", "a": ', "}", "]", "\n", "\\n",
    "日本", "🎉", "\\u00", "\\x41", "{}", "[]", "True", "null", "-", "<|end|>", "=", "#",
    "a='",
)  # fmt: skip


@dataclass(frozen=True)
class Form:
    codec: Codec
    calls: Calls
    write: Callable[[Mapping[str, int]], str]
    """The text of arguments that are integers."""
    hostile: Sequence[str]
    """Texts that are tried wherever masks may not allow them."""
    tokens: tuple[str, ...] = ()


def tagged(codec, before, after, tokens=()):
    def write(values):
        kinds = dict(codec.types)
        middle = codec.middle.replace("{type}", kinds.get("integer", ""))
        return "".join(f"{codec.begin}{k}{middle}{v}{codec.end}" for k, v in values.items())

    calls = Calls(call=(before, NAME, "|", ARGUMENTS, after), codec=codec)
    ends = (codec.end, codec.end, codec.end, codec.close, codec.end[:-2], codec.begin, after)
    return Form(codec, calls, write, (*ends, *TAGGED_HOSTILE), tokens)


def gemma(codec, tokens=()):
    around = ("", "") if codec.braces else ("{", "}")
    parts = ("<|tool_call>call:", NAME, around[0], ARGUMENTS, f"{around[1]}<tool_call|>")

    def write(values):
        text = ",".join(f"{name}:{value}" for name, value in values.items())
        return f"{{{text}}}" if codec.braces else text

    calls = Calls(call=tuple(part for part in parts if part), codec=codec)
    hostile = (*GEMMA_HOSTILE, codec.quote, codec.quote + ",")
    return Form(codec, calls, write, hostile, tokens)


def tag(name, *inner):
    return f"{NS}<{name}>{''.join(inner)}{NS}</{name}>"


def nested(*tokens):
    codec = NestedTags(NS)
    call = (f'{NS}<invoke name="', NAME, '">', ARGUMENTS, f"{NS}</invoke>\n")
    calls = Calls(begin=f"{NS}<tool_call>\n", call=call, end=f"{NS}</tool_call>", codec=codec)

    def write(values):
        return "".join(tag(name, str(value)) for name, value in values.items())

    return Form(codec, calls, write, NESTED_HOSTILE, tokens)


def pythonic(codec):
    call = (NAME, "(", ARGUMENTS, ")")
    calls = Calls(begin="[", call=call, separator=", ", end="]", codec=codec)

    def write(values):
        return ", ".join(f"{name}={value}" for name, value in values.items())

    return Form(codec, calls, write, PYTHONIC_HOSTILE, ("<|end|>",))


TAGGED = {
    "lines": tagged(
        FlatTags("<parameter=", ">\n", "\n</parameter>\n", close="</parameter>"), "<f=", "</f>"
    ),
    "no_lines": tagged(
        FlatTags("<parameter=", ">", "</parameter>\n", close="</parameter>"), "<f=", "</f>"
    ),
    "key_tags": tagged(
        FlatTags("<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n", close="</arg_value>"),
        "<tool_call>",
        "</tool_call>",
        GLM_MARKS,
    ),
    "key_tags_in_text": tagged(
        FlatTags("<arg_key>", "</arg_key><arg_value>", "</arg_value>", close="</arg_value>"),
        "<tool_call>",
        "</tool_call>",
    ),
    "typed": tagged(
        FlatTags(
            '<|D|parameter name="',
            '" string="{type}">',
            "</|D|parameter>\n",
            close="</|D|parameter>",
            types=DSML_TYPES,
        ),
        "<|D|invoke>",
        "</|D|invoke>",
        ("|D|",),
    ),
    "typed_tokens": tagged(
        FlatTags(
            '<|open|>argument key="',
            '" type="{type}"<|sep|>',
            "<|close|>argument<|sep|>",
            close="<|close|>argument<|sep|>",
            types=K3_TYPES,
            escapes=(("&", "&amp;"), ('"', "&quot;")),
        ),
        "<|open|>call",
        "<|close|>call<|sep|>",
        ("<|open|>", "<|sep|>", "<|close|>"),
    ),
    "no_less_than": tagged(FlatTags('<p name="', '">', "</p>", close="<"), "<i>", "</i>"),
    "cdata": tagged(
        FlatTags('<param name="', '">', "</param>", close="</param>", cdata=True), "<f>", "</f>"
    ),
}
GEMMA = {
    "tokens": gemma(GemmaValues(Q), (Q, "<tool_call|>")),
    "text": gemma(GemmaValues("<escape>")),
    "no_braces": gemma(GemmaValues(Q, braces=False), (Q, "<tool_call|>")),
}
NESTED = {"nested_token": nested(NS, "[e~["), "nested_text": nested()}
PYTHONIC = {
    "double": pythonic(Pythonic()),
    "json_objects": pythonic(Pythonic(quote="'", json_objects=True)),
}
FAMILIES = {"gemma": (*GEMMA,), "nested": (*NESTED,)}
"""Names of forms with the same codec."""
FORMS = {**TAGGED, **GEMMA, **NESTED, **PYTHONIC}


@lru_cache(maxsize=4)
def model(name):
    form = FORMS[name]
    return CodecModel(Dialect(name="made-up", calls=form.calls), form.tokens)


def qwen(**values):
    return "".join(f"<parameter={k}>\n{v}\n</parameter>\n" for k, v in values.items())


def quoted(name, text):
    """The text with the quote marks of a form, which `Q` stands for, in its braces."""
    codec = FORMS[name].codec
    assert isinstance(codec, GemmaValues)
    text = text.replace("Q", codec.quote)
    return f"{{{text}}}" if codec.braces else text


# --- forms ---
ENOUGH = 4
"""Whole calls after which a test has seen enough of a form and a schema."""
ENDLESS = "two_patterns"
"""A schema whose raw texts, where strings have no quotes, do not end in a walk."""


@pytest.mark.exhaustive
@sampled("name, schema_name", FORMS, CODEC_SCHEMAS, one_in=13)
def test_random_walks_give_valid_arguments(name, schema_name):
    form, schema, made = FORMS[name], CODEC_SCHEMAS[schema_name], model(name)
    assert name in TAGGED or not made.verdict(schema)[0].residual
    hostile = [made.form.marks.decode(text) for text in form.hostile]
    walks = made.valid_walks(schema, repeats(8, nightly=12), hostile)
    seen = [*islice(walks, ENOUGH)]
    after = made.form.marks.decode(made.form.grammar_texts("f")[1])
    for arguments, text in seen:
        assert (arguments, len(text)) == arguments_of(text + after, form.codec, schema), text
    assert seen or (name in TAGGED and schema_name == ENDLESS)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", TAGGED)
def test_counted_texts_with_parts_of_the_end_do_not_exceed_a_limit_of_the_engine(name):
    made = model(name)
    codec = FORMS[name].codec
    assert isinstance(codec, FlatTags)
    schema = {
        "properties": {"a": {"type": ["string", "null"], "maxLength": 100}},
        "required": ["a"],
    }
    grammar = made.grammar(schema)
    hostile = ["\n" * 5, codec.end, codec.close, codec.end[:-2], codec.close + " ", "x" * 20]
    for seed in range(repeats(3, nightly=6)):
        written = made.walk(grammar, seed, [made.form.marks.decode(text) for text in hostile])
        if written is not None:
            jsonschema.validate(json.loads(made.parsed(schema, written)), schema)


@pytest.mark.parametrize("name", FORMS)
def test_arguments_come_in_any_order_and_required_ones_must_come(name):
    made, write = model(name), FORMS[name].write
    names = [f"p{at}" for at in range(12)]
    schema = {"properties": {name: {"type": "integer"} for name in names}, "required": names[:2]}
    grammar = made.grammar(schema)
    assert made.accepts(grammar, write({"p7": 1, "p1": 2, "p0": 3, "p11": 4}))
    assert not made.accepts(grammar, write({"p7": 1, "p1": 2}))
    assert not made.accepts(grammar, write({}))


# --- further members ---
S, N = {"type": "string"}, {"type": "integer"}
NULL = {"type": "null"}
NAMES = ["", "a", "ab", "b", "x", "xa", "x-1", "id", "12", "é", "A b"]
SOME_VALUES = ["a", 1, True, None]


@pytest.mark.parametrize("node", CASES["each_member_is_that_of_its_name_or_another_one"])
def test_each_member_is_that_of_its_name_or_another_one(node):
    declared, further = declared_members(node), further_members(node)
    validator = jsonschema_rs.validator_for({k: v for k, v in node.items() if k != "required"})
    for name in NAMES:
        found = [declared[name]] if name in declared else []
        if further is not None and name not in declared:
            is_named = further.pattern is None or matches(further.pattern, name)
            found += [further.schema] if is_named else []
        for value in SOME_VALUES:
            is_valid = bool(found) and jsonschema_rs.is_valid(found[0], value)
            assert is_valid == validator.is_valid({name: value}), (name, value)


@pytest.mark.parametrize(
    "more",
    CASES["a_pattern_beside_other_members_or_without_a_name_is_not_read"],
)
def test_a_pattern_beside_other_members_or_without_a_name_is_not_read(more):
    node = {"patternProperties": {"^x": N}, "additionalProperties": False}
    assert has_readable_names(node)
    assert not has_readable_names(node | more)


# --- members ---


def texts_of(name, members):
    """The texts of an object that is an argument, and of one that is all arguments."""
    if name in GEMMA:
        return [quoted(name, f"o:{{{members}}}")], [quoted(name, members)]
    if name in NESTED:
        return [tag("o", members)], [members]
    written = [json.dumps(members)]
    if name == "double":
        written = [repr(members), written[0].replace("null", "None")]
    return [f"o={text}" for text in written], []


@pytest.mark.parametrize(
    ("name", "schema", "members", "accepted"),
    [
        (name, schema, members, accepted)
        for form, schema, members, accepted in CASES["members"]
        for name in {**FAMILIES, "pythonic": (*PYTHONIC,)}[form]
    ],
)
def test_names_by_pattern_and_by_list(name, schema, members, accepted):
    made = model(name)
    inside, alone = texts_of(name, members)
    wrapped = {"properties": {"o": schema}, "required": ["o"]}
    for parameters, texts in ((wrapped, inside), (schema, alone)):
        verdict, grammar = made.verdict(parameters)
        assert grammar is not None, verdict
        assert not verdict.residual
        for text in texts:
            assert made.accepts(grammar, text) is accepted


MANY = {"properties": {f"p{at}": S for at in range(70)}, "required": ["p3"]}
IN_ORDER = (qwen(p1="x", p3="y", p69="z"),), (qwen(p3="x", p1="y"), qwen(p1="x"))
"""More arguments than bits come in the order of the schema."""


@pytest.mark.parametrize(
    ("name", "parameters", "accepted", "refused"),
    [*CASES["all_arguments"], ("lines", MANY, *IN_ORDER)],
)
def test_arguments(name, parameters, accepted, refused):
    made = model(name)
    verdict, grammar = made.verdict(parameters)
    assert grammar is not None, verdict
    assert not verdict.residual
    assert all(made.accepts(grammar, text) for text in accepted)
    assert not any(made.accepts(grammar, text) for text in refused)


@pytest.mark.parametrize("name", ["tokens", "double"])
def test_names_by_pattern_beside_declared_ones_are_left_to_validation(name):
    declared = {"properties": {"id": NULL, "No": NULL}, "required": ["id"]}
    letters = {"type": "object", "additionalProperties": N}
    letters["propertyNames"] = {"pattern": "^[a-z ]+$"}
    verdict, grammar = model(name).verdict(letters | declared)
    assert grammar is not None
    assert [one.pointer for one in verdict.residual] == ["/propertyNames"]


# --- rules ---
def test_a_grammar_that_repeats_its_definitions_too_often_is_refused():
    rules = GrammarRules()
    repeated = "d" * (MAX_LENGTH // 50)
    for at in range(49):
        rules.add("json", f"%json {at} {repeated}")
    with pytest.raises(GrammarRefused, match="characters"):
        rules.add("json", f"%json {repeated}")
    assert sum(map(len, rules.lines)) <= MAX_LENGTH


def test_the_same_rule_counts_once():
    rules = GrammarRules()
    names = {rules.add("json", "d" * (MAX_LENGTH // 2)) for _ in range(10)}
    assert len(names) == len(rules.lines) == 1


# --- values ---
@pytest.mark.parametrize(
    ("name", "schema", "text", "accepted"),
    [
        (name, schema, text, accepted)
        for form, schema, text, accepted in CASES["values"]
        for name in FAMILIES.get(form, (form,))
    ],
)
def test_values(name, schema, text, accepted):
    if name in GEMMA:
        text = quoted(name, f"a:{text}")
    elif name in NESTED:
        text = tag("a", text)
    made = model(name)
    grammar = made.grammar({"properties": {"a": schema}, "required": ["a"]})
    assert made.accepts(grammar, text) is accepted


# --- verdicts ---
@pytest.mark.parametrize(
    ("name", "argument", "schema"),
    CASES["values_that_cannot_be_written_are_refused_by_name"],
)
def test_values_that_cannot_be_written_are_refused_by_name(name, argument, schema):
    made = model(name)
    verdict, _ = made.verdict({"properties": {argument: schema}, "required": [argument]})
    assert (verdict.status, verdict.pointer) == ("refused", f"/properties/{argument}")
    optional = made.grammar({"properties": {argument: schema}})
    assert made.accepts(optional, "{}" if name in ("tokens", "text") else "")


@pytest.mark.parametrize(
    ("name", "schema", "keyword"),
    CASES["keywords_that_masks_cannot_hold_are_left_to_validation"],
)
def test_keywords_that_masks_cannot_hold_are_left_to_validation(name, schema, keyword):
    verdict, grammar = model(name).verdict({"properties": {"a": schema}, "required": ["a"]})
    assert grammar is not None
    assert [one.pointer for one in verdict.residual] == [f"/properties/a/{keyword}"]


def test_overlapping_patterns_of_names_are_left_to_validation():
    patterns = {"^x": {"type": "integer"}, "a$": S}
    inner = {"type": "object", "patternProperties": patterns}
    verdict, grammar = model("double").verdict({"properties": {"o": inner}, "required": ["o"]})
    assert grammar is not None
    assert "/properties/o/patternProperties" in [one.pointer for one in verdict.residual]


def test_a_combination_of_objects_is_enforced_or_left_to_validation():
    common = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    node = {
        "type": "object",
        "properties": {"b": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        "required": ["b"],
    }
    both = {"allOf": [common, {"$ref": "#/$defs/node"}]}
    made = model("double")
    verdict, grammar = made.verdict({**both, "type": "object", "$defs": {"node": node}})
    assert grammar is not None
    assert verdict.residual or not made.accepts(grammar, "b=[]")
    assert made.accepts(grammar, "a=1, b=[]")


def test_a_string_cannot_contain_the_text_of_the_mark():
    made = model("tokens")
    grammar = made.grammar(CODEC_SCHEMAS["text"])
    quote = made.tokens_of(Q)
    matcher = grammar.matcher()
    before, _ = made.form.grammar_texts("f")
    head = made.vocabulary.literal_tokens(before)
    spelled = [*made.vocabulary.literal_tokens("<|"), *made.vocabulary.literal_tokens('"|>')]
    for token in [*head, *made.tokens_of("{a:"), *quote, *spelled[:-1]]:
        assert matcher.accept(token)
    assert not matcher.accept(spelled[-1])
