"""Masks of patterns allow the strings that JavaScript finds them in, as JSON and as raw text."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

import llguidance
import pytest

from tests.support.effort import repeats
from tests.support.schemas.javascript import JavaScript, random_pattern, random_texts, sample_of
from toolgate_backend.errors import GrammarRefused
from toolgate_backend.grammars.codecs.raw_strings import whole_text
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.engines.engine import Matcher
from toolgate_backend.grammars.offline import compiler_of
from toolgate_core import grammar_key
from toolgate_core.schema.canonical import canonical_json, canonical_parameters
from toolgate_core.schema.patterns import is_maskable

ROUNDS = repeats(250, nightly=10_000)


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    return compiler_of("qwen3")


def takes(matcher: Matcher, text: str) -> bool:
    """The ids of the tokens are their bytes."""
    return all(map(matcher.accept, text.encode())) and matcher.complete


def taken_as_json(compiler: Compiler, pattern: str, texts: list[str]) -> list[bool] | None:
    """None if masks don't enforce the pattern."""
    parameters = canonical_parameters(
        {
            "type": "object",
            "properties": {"a": {"type": "string", "pattern": pattern}},
            "required": ["a"],
        }
    )
    made = compiler.compile("", grammar_key.CONTENT, canonical_json(parameters))
    if made.verdict.residual:
        return None
    if made.grammar is None and 'is not a "regex"' in (made.verdict.reason or ""):
        assert not is_maskable(pattern)  # the validator can't read it either
        return None
    if made.grammar is None:
        reasons = ("nsatisfiable", "No value", "No string matches the pattern")
        assert any(reason in (made.verdict.reason or "") for reason in reasons)
        return [False] * len(texts)
    written = (json.dumps({"a": text}, ensure_ascii=False) for text in texts)
    return [takes(made.grammar.matcher(), text) for text in written]


def taken_as_raw_text(pattern: str, texts: list[str]) -> list[bool]:
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
def test_random_patterns(compiler: Compiler) -> None:
    javascript, random = JavaScript(), Random(262)
    seen: Counter[str] = Counter()
    for _ in range(ROUNDS):
        pattern = random_pattern(random, depth=2)
        samples = filter(None, (sample_of(pattern, at) for at in range(2)))
        texts = [*random_texts(random, 6), *samples]
        reading = javascript.reading(pattern, texts)
        if reading is None or not reading.unicode:  # the validator's test has the others
            continue
        seen["valid"] += 1
        taken = taken_as_json(compiler, pattern, texts)
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


@pytest.mark.parametrize(
    ("pattern", "matched", "other"),
    [
        (r"^[!-\/:-@[-`{-~]$", "[", "a"),
        (r"^[a-d&&x]{2,6}$", "a&xd", "e&"),
        (r"^[*--x]$", "-", "a"),
        (r"^[a~~b]$", "~", "-"),
        (r"^(?i)yes|no$", "YES", "NOT"),
        (r"^[\s\S]?$", "\n", "aa"),
        (r"^(^a|b$)$", "b", "ab"),
        (r"^.$", "a", "\u2028"),
        (r"^(\p{Extended_Pictographic}|\p{Emoji_Component})+$", "😀", "a"),
        (
            r"^(?=[\s\S]*[\p{Extended_Pictographic}\p{Regional_Indicator}\u20E3])"
            r"[\p{Extended_Pictographic}\p{Emoji_Component}]+$",
            "😀1",
            "1",
        ),
        (r"^(?=.{1,253}\.?$)[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z]{2,})+\.?$", "a.io", "a"),
    ],
)
def test_masks_of_a_pattern(compiler: Compiler, pattern: str, matched: str, other: str) -> None:
    assert taken_as_json(compiler, pattern, [matched, other]) == [True, False]
