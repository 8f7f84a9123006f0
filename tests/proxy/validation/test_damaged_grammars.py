"""Grammars of custom tools of any content are refused, read, or not read; none takes long."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.support.effort import repeats
from toolgate_core.custom_tools import Grammar, read_grammar
from toolgate_core.errors import ToolgateError
from toolgate_proxy.validation import grammar_reader

LARK = (
    "start",
    ": ",
    "\n",
    "a",
    "b",
    "A",
    "| ",
    '"x"',
    "/[a-z]+/",
    "/(a+)+/",
    "(",
    ")",
    "*",
    "+",
    "?",
    "[",
    "]",
    "~2",
    "~1..3",
    "%ignore ",
    "%import common.INT",
    "%declare B",
    "%override ",
    "!",
    "_x",
    "->",
    "//c",
    "/",
    "{",
    "}",
    ".",
    "..",
    "é",
    "\\",
    '"',
    "@",
    "?start: a",
    "%json {",
    "<a>",
    "$",
)
REGEX = (
    *(
        "a",
        "[a-z]",
        "(",
        ")",
        "*",
        "+",
        "?",
        "{2}",
        "{2,",
        "|",
        "^",
        "$",
        "\\d",
        "\\p{L}",
        "(?i)",
        "[",
    ),
    *("]", "\\", ".", "(?=", "(?P<n>", "\\1", "\x00", "é", "{99999999}"),
)


def definitions(words: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(words), max_size=25).map("".join)


grammars = definitions(REGEX).map(lambda text: Grammar("regex", text)) | (
    definitions(LARK) | definitions(LARK).map(lambda text: f"start: a\na: {text}")
).map(lambda text: Grammar("lark", text))


@pytest.mark.exhaustive
@settings(max_examples=repeats(133, nightly=400))
@example(Grammar("lark", "%declare A\nstart: A"), "a")
@given(grammars, st.text("ab1 x", max_size=12))
def test_any_grammar_is_read_or_not_read(grammar: Grammar, text: str) -> None:
    matches = grammar_reader.read_grammar(grammar)
    assert matches is None or matches(text) in (True, False)


values = st.recursive(
    st.none()
    | st.integers()
    | st.sampled_from(["grammar", "lark", "regex", "text", "", "start: /a/"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["type", "syntax", "definition", "grammar", "x"]), inner, max_size=4
    ),
    max_leaves=6,
)


@settings(max_examples=repeats(100, nightly=300))
@given(values)
def test_any_format_of_a_custom_tool_is_read_or_refused(value: object) -> None:
    refused: ToolgateError | None = None
    found: object = None
    try:
        found = read_grammar(value, "tools[0].custom.format")
    except ToolgateError as error:
        refused = error
    assert refused is None or refused.status == 400
    assert found is None or isinstance(found, Grammar)
