"""The reader of inputs of custom tools agrees with Lark, and trusts no difference of languages.
Grammars of any content are refused, read, or not read; none takes long."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.proxy.kit import beside
from tests.support.effort import repeats
from tests.support.grammars.custom_grammars import CASES, PATCH
from toolgate_core.custom_tools import Grammar
from toolgate_core.custom_tools import read_grammar as read_format
from toolgate_core.errors import ToolgateError
from toolgate_core.tools import parse_tools
from toolgate_proxy.validation.grammar_reader import read_grammar
from toolgate_proxy.validation.service import ValidationService
from toolgate_proxy.validation.validator import Violation

ROWS = beside(__file__)
TEXTS = ROWS["texts"]


def tool_with(syntax, definition):
    form = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
    (tool,) = parse_tools([{"type": "custom", "custom": {"name": "f", "format": form}}])
    return tool


@pytest.mark.parametrize("name", [case.name for case in CASES if case.syntax == "lark"])
def test_the_reader_agrees_with_larks_own_parser(name):
    case = next(case for case in CASES if case.name == name)
    matches = read_grammar(Grammar("lark", case.definition))
    assert matches is not None
    results = {text: matches(text) for text in TEXTS[case.name]}
    assert results == {text: case.accepts(text) for text in TEXTS[case.name]}
    assert set(results.values()) == {True, False}


def test_a_long_patch_is_read_fast_by_the_longest_matches():
    matches = read_grammar(Grammar("lark", PATCH))
    lines = "".join(f"+ line {at} of the file\n" for at in range(1000))
    assert matches is not None
    assert matches(f"*** Begin Patch\n*** Add File: a\n{lines}*** End Patch")


@pytest.mark.parametrize(
    "definition", ROWS["not read"]
)  # fmt: skip
def test_a_grammar_that_re2_or_lark_read_differently_is_not_read(definition):
    lark = definition.startswith("start")
    assert read_grammar(Grammar("lark" if lark else "regex", definition)) is None


@pytest.mark.parametrize(("pattern", "text", "expected"), ROWS["patterns"])
def test_a_negative_result_is_trusted_where_both_languages_agree(pattern, text, expected):
    matches = read_grammar(Grammar("regex", pattern))
    assert matches is not None
    assert matches(text) is expected


async def test_a_regular_expression_takes_linear_time_and_a_violation_is_reported():
    service = ValidationService(cpu_seconds=2)
    expected = Violation(pointer="/input", keyword="x-toolgate-grammar", schema_pointer="")
    for syntax, definition in (
        ("regex", r"(a|aa)+[^\s\S]|(a|aa)+b"),
        ("regex", "(a*)*b"),
        ("lark", "start: /(a|aa)+b/"),
    ):
        tool = tool_with(syntax, definition)
        assert await service.check(tool, f'{{"input": "{"a" * 5_000}"}}') == expected
        assert await service.check(tool, f'{{"input": "{"a" * 5_000}b"}}') is None


async def test_a_grammar_that_takes_too_long_is_left_to_the_masks():
    tool = tool_with("lark", 'start: a* "b"\na: "a" a | "a" | a a')
    service = ValidationService(cpu_seconds=0.2)
    assert await service.check(tool, f'{{"input": "{"a" * 2_000}"}}') is None


LARK = (
    'start¦: ¦\n¦a¦b¦A¦| ¦"x"¦/[a-z]+/¦/(a+)+/¦(¦)¦*¦+¦?¦[¦]¦~2¦~1..3¦%ignore ¦%override ¦!¦_x¦->¦'
    '%import common.INT¦%declare B¦//c¦/¦{¦}¦.¦..¦é¦\\¦"¦@¦?start: a¦%json {¦<a>¦$'
)
REGEX = "a¦[a-z]¦(¦)¦*¦+¦?¦{2}¦{2,¦|¦^¦$¦\\d¦\\p{L}¦(?i)¦[¦]¦\\¦.¦(?=¦(?P<n>¦\\1¦é¦\x00¦{99999999}"


def definitions(words):
    return st.lists(st.sampled_from(words.split("¦")), max_size=25).map("".join)


grammars = definitions(REGEX).map(lambda text: Grammar("regex", text)) | (
    definitions(LARK) | definitions(LARK).map(lambda text: f"start: a\na: {text}")
).map(lambda text: Grammar("lark", text))


@pytest.mark.exhaustive
@settings(max_examples=repeats(80, nightly=400))
@example(Grammar("lark", "%declare A\nstart: A"), "a")
@given(grammars, st.text("ab1 x", max_size=12))
def test_any_grammar_is_read_or_not_read(grammar, text):
    matches = read_grammar(grammar)
    assert matches is None or matches(text) in (True, False)


WORDS = ["grammar", "lark", "regex", "text", "", "start: /a/"]
KEYS = ["type", "syntax", "definition", "grammar", "x"]
values = st.recursive(
    st.none() | st.integers() | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
    max_leaves=6,
)


@settings(max_examples=repeats(60, nightly=300))
@given(values)
def test_any_format_of_a_custom_tool_is_read_or_refused(value):
    refused = None
    found = None
    try:
        found = read_format(value, "tools[0].custom.format")
    except ToolgateError as error:
        refused = error
    assert refused is None or refused.status == 400
    assert found is None or isinstance(found, Grammar)
