"""The reader of inputs of custom tools agrees with Lark, and trusts no difference of languages."""

from __future__ import annotations

import pytest

from tests.support.grammars.custom_grammars import CASES, PATCH
from toolgate_core.custom_tools import Grammar
from toolgate_core.tools import parse_tools
from toolgate_proxy.validation.grammar_reader import read_grammar
from toolgate_proxy.validation.service import ValidationService
from toolgate_proxy.validation.validator import Violation

TEXTS = {
    "patch": (
        "*** Begin Patch\n*** Update File: a\n@@\n-\n+\tx\n*** End Patch",
        "*** Begin Patch\n*** Delete File: a\n*** End Patch\n",
        "*** Begin Patch\n*** End Patch",
        "*** Begin Patch\n*** Add File: a\n*** End Patch",
        "*** Begin Patch\n*** Add File: a\n+\n*** End Patch\n\n",
    ),
    "arithmetic": ("1 + (2*-3.5)", "1 +", "((1)", " 1", "1 2", "--1", ""),
    "sql": (
        "select * from a;",
        "SELECT a, count(*) FROM b WHERE c <= 'd e' AND f=1 ORDER BY g desc;",
        "select from a;",
        "select * from a where b;",
    ),
    "json_like": ('{"a\\n": [1, {"b": null}], "c": -0.5}', "{'a': 1}", '"\n"', "[1,]", '"a"b"'),
    "chinese": ("我喜欢你。", "他们看见「你不认识我！」？", "我喜欢", "我你。"),
    "lisp": ('(a (b "c d" \'e))', "(a", "()", "a", "( a)"),
    "lines": (f"k: {'x' * 30}\nab: {'y' * 20}\n", "k: short\n", f"k: {'x' * 30}"),
    "markup": ("<b>text<b></b></b>", "<b>text", "<c></c>"),
}


@pytest.mark.parametrize("name", [case.name for case in CASES if case.syntax == "lark"])
def test_the_reader_agrees_with_larks_own_parser(name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    matches = read_grammar(Grammar("lark", case.definition))
    assert matches is not None
    results = {text: matches(text) for text in TEXTS[case.name]}
    assert results == {text: case.accepts(text) for text in TEXTS[case.name]}
    assert set(results.values()) == {True, False}


def test_a_long_patch_is_read_fast_by_the_longest_matches() -> None:
    matches = read_grammar(Grammar("lark", PATCH))
    lines = "".join(f"+ line {at} of the file\n" for at in range(1000))
    assert matches is not None
    assert matches(f"*** Begin Patch\n*** Add File: a\n{lines}*** End Patch")


@pytest.mark.parametrize(
    ("syntax", "definition"),
    [
        ("regex", "[a-z&&[^b]]+"),
        ("regex", "[a[bc]]"),
        ("regex", "a{,3}"),
        ("regex", "(?x)a b"),
        ("lark", r"start: /[a-z--b]+/"),
        ("lark", 'start: /^a$/ "b"'),
        ("lark", r'start: /a\z/ "b"'),
        ("lark", r'start: "x" /\Aa/'),
        ("lark", "start: a"),
    ],
)
def test_a_grammar_that_re2_or_lark_read_differently_is_not_read(
    syntax: str, definition: str
) -> None:
    assert read_grammar(Grammar(syntax, definition)) is None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        (r"\d+", "12", True),
        (r"\d+", "a", False),
        (r"\w+", "a\u0301-", True),  # not trusted: Rust counts combining marks
        (r"\p{L}+", "é", True),
        (r"\p{L}+", "-", False),
        (r"\s+", "\v", True),  # not trusted: white space for Rust, but not for RE2
        ("[[:alpha:]&]+", "a&", True),
        ("[[:alpha:]]+", ":", False),
        ("(?i)straße|\u212a", "k", True),
        (r"[\[&\-]+", "[&-", True),
        ("a|ab", "ab", True),
        ("[a-z]+", "é", False),
        (r"^a$", "a", True),
        (r"^a$", "a\n", False),
    ],
)
def test_a_negative_result_is_trusted_where_both_languages_agree(
    pattern: str, text: str, expected: bool
) -> None:
    matches = read_grammar(Grammar("regex", pattern))
    assert matches is not None
    assert matches(text) is expected


async def test_the_service_reports_a_violation_of_the_grammar() -> None:
    form = {"type": "grammar", "grammar": {"syntax": "lark", "definition": 'start: "a"+'}}
    (tool,) = parse_tools([{"type": "custom", "custom": {"name": "f", "format": form}}])
    service = ValidationService()
    assert await service.check(tool, '{"input": "aa"}') is None
    expected = Violation(pointer="/input", keyword="x-toolgate-grammar", schema_pointer="")
    assert await service.check(tool, '{"input": "ab"}') == expected


@pytest.mark.parametrize(
    ("syntax", "definition"),
    [
        ("regex", r"(a|aa)+[^\s\S]|(a|aa)+b"),
        ("regex", "(a*)*b"),
        ("lark", "start: /(a|aa)+b/"),
    ],
)
async def test_a_regular_expression_takes_linear_time(syntax: str, definition: str) -> None:
    form = {"type": "grammar", "grammar": {"syntax": syntax, "definition": definition}}
    (tool,) = parse_tools([{"type": "custom", "custom": {"name": "f", "format": form}}])
    service = ValidationService(cpu_seconds=2)
    assert await service.check(tool, f'{{"input": "{"a" * 5_000}"}}') is not None
    assert await service.check(tool, f'{{"input": "{"a" * 5_000}b"}}') is None


async def test_a_grammar_that_takes_too_long_is_left_to_the_masks() -> None:
    definition = 'start: a* "b"\na: "a" a | "a" | a a'
    form = {"type": "grammar", "grammar": {"syntax": "lark", "definition": definition}}
    (tool,) = parse_tools([{"type": "custom", "custom": {"name": "f", "format": form}}])
    service = ValidationService(cpu_seconds=0.2)
    assert await service.check(tool, f'{{"input": "{"a" * 2_000}"}}') is None
