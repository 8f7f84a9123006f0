"""The languages of strings: the same state only for texts that can go on in the same ways."""

import random
from functools import reduce

import jsonschema_rs
import pytest

from toolgate_core.schema.keywords import PATTERNS
from toolgate_core.schema.patterns import whole
from toolgate_core.schema.regular.parts import Unsupported
from toolgate_core.schema.regular.reading import parse
from toolgate_core.schema.string_languages import (
    BEGIN,
    FREE,
    MAX_STATES,
    Language,
    StringLanguages,
    constraints_of,
)

TEXTS = "2024-01T:Zfo @a.=+/é日\n"


def language_of(pattern):
    return Language(whole(parse(pattern)))


@pytest.mark.parametrize(
    "pattern",
    [
        *("^[A-Za-z0-9 .,'-]+$", "foo", "^(a|aa|T){2,3}$", "^a{0,3}.*[0-9]$", "o|^a|Z$"),
        *(r"^\p{L}+$", r"^[^\p{Lu}]*$", "^(?:a?){3}$", "^$|^(?:[0-9a-z+/]{4})*=?$"),
        *PATTERNS["date-time"],
        *PATTERNS["email"],
    ],
)
def test_texts_end_where_the_pattern_matches(pattern):
    language, rng = language_of(pattern), random.Random(1)
    for _ in range(60):
        state, text = BEGIN, ""
        for _ in range(12):
            character = rng.choice(TEXTS)
            after = language.after(state, character)
            if language.is_dead(after):
                assert not jsonschema_rs.is_valid({"pattern": pattern}, text + character)
                continue
            state, text = after, text + character
            matches = jsonschema_rs.is_valid({"pattern": pattern}, text)
            assert language.is_whole(state) == matches, text
            assert matches or not language.is_free(state)


def test_a_language_with_too_many_states_is_given_up():
    language = language_of("^(a|o)*a(a|o){40}$")
    text = "".join(random.Random(2).choices("ao", k=2 * MAX_STATES))
    with pytest.raises(Unsupported):
        reduce(language.after, text, BEGIN)


def known(*schemas, listed=()):
    constraints = [each for schema in schemas for each in constraints_of(schema, None)]
    return StringLanguages([FREE, *constraints], frozenset(listed))


def accepts(schema):
    """What an engine says of a string of a schema: whether some string begins with a text."""
    language = known(schema)._constraints[-1]
    return lambda text: language.after(language.begin, text) is not None


DIGITS, WORDS = {"pattern": "^[0-9]+$"}, {"pattern": "^[a-z ]+$"}


def test_the_language_of_a_string_is_found_by_what_it_may_begin_with():
    languages = known(DIGITS, WORDS)
    for schema in (DIGITS, WORDS, {}):
        found = languages.of(accepts(schema))
        assert found is not None
        for text in ("12", "ab c", "A"):
            is_known = found.after(found.begin, text) is not None
            assert is_known == accepts(schema)(text)


def test_a_string_that_may_be_a_listed_one_has_no_language():
    listed = ["12", "word"]
    may_begin = lambda text: any(each.startswith(text) for each in listed)  # noqa: E731
    assert known(DIGITS, WORDS, listed=listed).of(may_begin) is None


def test_lengths_are_counted_as_far_as_they_matter():
    found = known({"minLength": 3, "maxLength": 9}).of(accepts({"minLength": 3, "maxLength": 9}))
    assert found is not None
    counted = found.counted(found.begin)
    assert counted is not None
    assert (counted.length, counted.kind) == (0, (-10, 3))
    assert counted.is_far(2)
    assert not counted.is_far(3)
    after = found.counted(found.after(found.begin, "éaaa"))
    assert after is not None
    assert (after.length, after.kind) == (4, (-10,))
    beyond = found.counted(found.after(found.begin, "a" * 10))
    assert beyond is None or beyond.kind == ()


@pytest.mark.parametrize(
    "schema", [{"format": "ipv6"}, {"maxLength": 20_000}, {"minLength": 0.5}, {"pattern": "(a)\\1"}]
)
def test_demands_of_which_the_language_is_not_known(schema):
    with pytest.raises(Unsupported):
        [*constraints_of(schema, None)]
