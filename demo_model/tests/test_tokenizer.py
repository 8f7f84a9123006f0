"""Words are cut alike wherever they stand, and put together from the same parts."""

from __future__ import annotations

import numpy as np
import pytest
from tokenizers import Tokenizer

from trainer import corpus
from trainer import tokenizer as made

SAID = "the weather in a dog park; Weather and weather_in, inWeather 7 of 12, dog food, Dog\n"


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(made, "LEARNED", 330)
        patch.setattr(made, "VOCABULARY", 540)
        return made.train([SAID] * 50 + [text.text for text in corpus.texts(3, 120)])


def cut(tokenizer: Tokenizer, text: str) -> list[str]:
    return [token.replace(made.SPACE, " ") for token in tokenizer.encode(text).tokens]


@pytest.mark.parametrize("word", ["weather", "dog", "weatherdog", "zyqueldogi"])
def test_a_word_is_cut_alike_in_all_its_forms(tokenizer: Tokenizer, word: str) -> None:
    plain = cut(tokenizer, word)
    assert "".join(cut(tokenizer, f"a {word}")[1:]) == f" {word}"
    for before in (" ", "_"):
        found = cut(tokenizer, f"a{before}{word}")[1:]
        joined = [found[0] + found[1], *found[2:]] if found[0] == before else found
        assert joined == [before + plain[0], *plain[1:]]
    assert cut(tokenizer, word.capitalize()) == [plain[0].capitalize(), *plain[1:]]


def test_frequent_forms_are_one_token(tokenizer: Tokenizer) -> None:
    assert cut(tokenizer, "the weather, Weather: weather_in inWeather 7") == [
        "the", " weather", ",", " Weather", ":", " weather", "_in", " in", "Weather", " 7",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text", ['{"a": ["B c", "d"], "n": -1.5}', "北京 is 12° cold_ly\n\n 'x' __init__  _7 API-9"]
)
def test_nothing_is_lost(tokenizer: Tokenizer, text: str) -> None:
    assert tokenizer.decode(tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_a_token_has_the_parts_of_its_word_and_forms(tokenizer: Tokenizer) -> None:
    parts = made.composition(tokenizer)

    def of(token: str) -> tuple[int, list[bool]]:
        at = tokenizer.token_to_id(token.replace(" ", made.SPACE))
        assert at is not None
        return int(parts.base[at]), parts.forms[at].tolist()

    word = tokenizer.token_to_id("weather")
    assert of("weather") == (word, [False, False, False])
    assert of(" weather") == (word, [True, False, False])
    assert of(" Weather") == (word, [True, False, True])
    assert of("Weather") == (word, [False, False, True])
    assert of("_in") == (tokenizer.token_to_id("in"), [False, True, False])
    assert of(" 7") == (tokenizer.token_to_id("7"), [True, False, False])
    assert of('{"')[0] == tokenizer.token_to_id('{"')
    same = np.column_stack((parts.base, parts.forms))
    assert len(np.unique(same, axis=0)) == len(same)


def test_too_few_texts_are_refused() -> None:
    with pytest.raises(SystemExit, match="too few"):
        made.train([SAID])
