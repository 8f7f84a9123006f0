"""Grammars of custom tools: what they accept, in every form of arguments, and what is refused."""

import json
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from tests.support.dialects.codec_walks import CodecModel
from tests.support.grammars.custom_grammars import CASES as GRAMMARS
from tests.support.grammars.custom_grammars import PATCH
from toolgate_core.custom_tools import Grammar, custom_parameters
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.schema.canonical import canonical_json

CASES = json.loads(Path(__file__).with_name("custom_grammars.json").read_text())

# --- custom grammars ---
QUOTED = ("qwen3", "llama4_pythonic")
RAW = ("qwen3_coder", "gemma4", "deepseek_v32", "minimax_m3", "glm45", "kimi_k3")
WHOLE = (
    '*** Begin Patch\n*** Update File: a "b".py\n@@ def f():\n-\tx = "\\n"\n+\n+ é😀\n'
    "*** End of File\n*** End Patch"
)


@lru_cache
def model(dialect):
    return CodecModel(DIALECTS[dialect])


def compiled(dialect, syntax, definition):
    parameters = custom_parameters(Grammar(syntax, definition))
    return model(dialect).compiler.compile("key", "f", canonical_json(parameters))


def accepts(dialect, syntax, definition, text):
    """Whether a call with this input is accepted, in the tokenizer's own tokens."""
    result = compiled(dialect, syntax, definition)
    assert result.grammar is not None, result.verdict
    return model(dialect).accepts(result.grammar, written(dialect, text))


def written(dialect, text):
    """The arguments in the form of the dialect."""
    quoted, mark = json.dumps(text, ensure_ascii=False), "｜DSML｜"
    forms = {
        "qwen3": f'{{"input": {quoted}}}',
        "llama4_pythonic": f"input={quoted}",
        "qwen3_coder": f"<parameter=input>\n{text}\n</parameter>\n",
        "gemma4": f'{{input:<|"|>{text}<|"|>}}',
        "deepseek_v32": f'<{mark}parameter name="input" string="true">{text}</{mark}parameter>\n',
        "minimax_m3": f"]<]minimax[>[<input>{text}]<]minimax[>[</input>",
        "glm45": f"<arg_key>input</arg_key>\n<arg_value>{text}</arg_value>\n",
    }
    return forms[dialect]


@pytest.mark.parametrize("dialect", ["qwen3", "llama4_pythonic", "qwen3_coder", "gemma4", "glm45"])
@pytest.mark.parametrize(
    ("text", "expected"),
    CASES["the_grammar_applies_to_the_text_of_the_input"],
)
def test_the_grammar_applies_to_the_text_of_the_input(dialect, text, expected):
    assert accepts(dialect, "lark", PATCH, text) is expected


@pytest.mark.parametrize("dialect", ["qwen3", "qwen3_coder", "gemma4"])
@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    CASES["regular_expressions_match_the_whole_input"],
)
def test_regular_expressions_match_the_whole_input(dialect, pattern, text, expected):
    assert accepts(dialect, "regex", pattern, text) is expected


@pytest.mark.parametrize("dialect", ["qwen3_coder", "gemma4", "deepseek_v32", "minimax_m3"])
def test_an_input_never_contains_the_mark_that_ends_it(dialect):
    marks = {
        "qwen3_coder": "</parameter>",
        "gemma4": '<|"|>',
        "deepseek_v32": "</｜DSML｜parameter>",
        "minimax_m3": "]<]minimax[>[",
    }
    for text in (f"a{marks[dialect]}b", f"a\n{marks[dialect]}\n", marks[dialect]):
        assert not accepts(dialect, "lark", r"start: /[\s\S]+/", text)
    # A grammar whose terminals could form the mark, but need not.
    assert accepts(dialect, "lark", 'start: ("<" | "/" | ">" | "a")*', "<a/a>")


@pytest.mark.parametrize("dialect", [*QUOTED, *RAW])
def test_every_grammar_compiles_in_every_form(dialect):
    for case in GRAMMARS:
        if case.syntax != "text":
            result = compiled(dialect, case.syntax, case.definition)
            assert result.verdict.status == "ready", (case.name, result.verdict.reason)
            assert not result.verdict.residual


@pytest.mark.parametrize(("definition", "place"), CASES["a_refusal_has_the_line_and_the_column"])
@pytest.mark.parametrize("dialect", ["qwen3", "qwen3_coder"])
def test_a_refusal_has_the_line_and_the_column(dialect, definition, place):
    verdict = compiled(dialect, "lark", definition).verdict
    assert verdict.status == "refused"
    assert place in (verdict.reason or "")


@pytest.mark.parametrize("pattern", ["(", r"a(?!b)", r"(a)\1", "a)|(b", "[z-a]"])
def test_an_invalid_regular_expression_is_refused(pattern):
    assert compiled("qwen3", "regex", pattern).verdict.status == "refused"


@pytest.mark.parametrize("pattern", [r"[^\s\S]", r"a[^\s\S]", "[a-z&&[0-9]]", r"(a|b)\x00"])
def test_a_regular_expression_of_no_text_is_refused(pattern):
    verdict = compiled("qwen3", "regex", pattern).verdict
    assert verdict.status == "refused"
    assert "it matches " in (verdict.reason or "")


@pytest.mark.parametrize("dialect", ["qwen3", "llama4_pythonic"])
def test_no_mask_leads_to_a_character_without_an_escape(dialect):
    result = compiled(dialect, "regex", r"aa\x00|b|ab\x07*c")
    assert result.grammar is not None
    made = model(dialect)
    before, _ = made.form.grammar_texts("f")
    text = made.form.marks.decode(before) + written(dialect, "X").partition("X")[0]
    for given, allowed in (("aa", False), ("ab", True), ("b", True)):
        matcher = result.grammar.matcher()
        assert all(map(matcher.accept, made.tokens_of(text)))
        assert all(map(matcher.accept, made.tokens_of(given))) == allowed


@pytest.mark.parametrize("dialect", ["qwen3", "llama4_pythonic", "qwen3_coder"])
def test_a_rollback_restores_the_mask(dialect):
    made = model(dialect)
    result = compiled(dialect, "lark", PATCH)
    assert result.grammar is not None
    before, after = made.form.grammar_texts("f")
    marks = made.form.marks
    text = marks.decode(before) + written(dialect, WHOLE) + marks.decode(after)
    tokens = made.tokens_of(text)
    matcher = result.grammar.matcher()
    masks = []
    for token in tokens:
        row = np.zeros((made.vocabulary.size + 31) // 32, dtype=np.int32)
        matcher.fill(row)
        masks.append(row)
        assert matcher.accept(token)
    assert matcher.finished
    for count in (1, 3, 7):
        matcher.rollback(count)
        at = len(tokens) - count
        row = np.zeros_like(masks[at])
        matcher.fill(row)
        assert (row == masks[at]).all()
        assert all(map(matcher.accept, tokens[at:]))
