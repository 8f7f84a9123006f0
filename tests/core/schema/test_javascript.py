"""Patterns mean what they mean in JavaScript, for the validator and for the engines."""

import json
import re
from collections import Counter
from pathlib import Path
from random import Random

import jsonschema_rs
import pytest

from tests.support.effort import repeats
from tests.support.schemas.javascript import JavaScript, random_pattern, random_texts, sample_of
from toolgate_core.schema.patterns import for_engines, is_maskable, is_portable, portable
from toolgate_core.schema.regular.parts import Unsupported
from toolgate_core.schema.regular.reading import parse

CASES = json.loads(Path(__file__).with_name("javascript.json").read_text())

ROUNDS = repeats(600, nightly=10_000)
AS_OTHERS = re.compile(r"\\p\{|\\P\{|\\u\{")
r"""Where `\p{…}` and `\u{…}` are no letters, unlike in JavaScript without `u`."""
DISPUTED = re.compile("[\x1c-\x1f\x85\ufeff]")
"""Masks allow none of them where a pattern has classes of white space."""
PAIRS = re.compile(r"😀|\\ude00")
DOMAIN = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"


@pytest.fixture(scope="module")
def javascript():
    return JavaScript()


@pytest.mark.parametrize(("pattern", "texts"), CASES["known"])
def test_a_pattern(javascript, pattern, texts):
    reading = javascript.reading(pattern, texts)
    assert reading is not None
    assert matched(portable(pattern), texts) == dict(zip(texts, reading.found, strict=True))


@pytest.mark.exhaustive
def test_random_patterns(javascript):
    random = Random(53)
    seen = Counter()
    for _ in range(ROUNDS):
        pattern = random_pattern(random)
        texts = [*random_texts(random), *filter(None, (sample_of(pattern, at) for at in range(3)))]
        reading = javascript.reading(pattern, texts)
        with_unicode = reading is not None and reading.unicode
        if not with_unicode and AS_OTHERS.search(pattern):
            seen["as others do"] += 1
            continue
        refusal = refusal_of(pattern)
        if "without regard to case" in refusal:
            seen["residual"] += 1
            continue
        assert (reading is None) == bool(refusal), (pattern, refusal)
        if reading is None:
            seen["error"] += 1
            continue
        expected = dict(zip(texts, reading.found, strict=True))
        if not with_unicode:  # without the flag, JavaScript sees two characters there
            pairs = PAIRS.search(pattern) is not None
            expected = {text: expected[text] for text in texts if not pairs and "😀" not in text}
        made = portable(pattern)
        assert portable(made) == made, pattern
        found = matched(made, [*expected])
        if found is None:
            assert "(?<" in pattern, made  # a look-behind of variable length
            seen["refused"] += 1
            continue
        assert found == expected, (pattern, made)
        seen["read"] += 1
        seen["portable"] += is_portable(pattern)
        plain = for_engines(made)
        if all(map(is_maskable, plain)):
            seen["for engines"] += 1
            by_one = [matched(each, [*expected]) or {} for each in plain]
            certain = {text: each for text, each in expected.items() if not DISPUTED.search(text)}
            assert {text: all(each[text] for each in by_one) for text in certain} == certain
    assert seen["read"] > ROUNDS / 2
    assert seen["for engines"] > ROUNDS / 3
    assert max(seen["refused"], seen["residual"]) < ROUNDS / 50
    assert min(seen["error"], seen["portable"], seen["as others do"]) > 0


def refusal_of(pattern):
    """Why a pattern is not read; empty if it is."""
    try:
        parse(pattern)
    except Unsupported as error:
        return str(error)
    return ""


def matched(pattern, texts):
    """What the validator finds; None if it refuses the pattern."""
    try:
        check = jsonschema_rs.validator_for({"pattern": pattern})
    except jsonschema_rs.ValidationError:
        return None
    return {text: check.is_valid(text) for text in texts}


@pytest.mark.parametrize(
    ("pattern", "matched", "other"),
    CASES["what_javascript_does_not_have_is_read_as_everybody_else_does"],
)
def test_what_javascript_does_not_have_is_read_as_everybody_else_does(pattern, matched, other):
    check = jsonschema_rs.validator_for({"pattern": portable(pattern)})
    assert check.is_valid(matched)
    assert not check.is_valid(other)
    assert is_maskable(portable(pattern))


@pytest.mark.parametrize("pattern", ["a++", "(?x) a", "(?>a)", "(", "a**", "[b-a]", "a{2,1}", "(?"])
def test_what_nobody_can_translate_stays_as_it_is(pattern):
    assert portable(pattern) == pattern
    with pytest.raises(Unsupported, match="no regular expression of JavaScript"):
        parse(pattern)


def test_texts_of_the_shared_syntax_stay_as_they_are():
    for pattern in (r"^[a-z\d_-]+$", r"^\w+\.(?:json|yaml)$", rf"^{DOMAIN}$", "a|^b$", "é{2,}?"):
        assert is_portable(pattern)
        assert portable(pattern) == pattern
