"""The lists of random words that finding a tool is learned from."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tokenizers import Tokenizer

from byte_tokenizer import WORDS, word_tokenizer
from trainer import looking
from trainer.looking import Lists, Progress


@pytest.fixture(autouse=True)
def _longer_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not a word is bytes here, not tokens."""
    monkeypatch.setattr(looking, "LENGTH", 320)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return word_tokenizer()


@pytest.fixture(scope="module")
def lists(tokenizer: Tokenizer) -> Lists:
    return Lists(tokenizer, np.random.default_rng(0))


def test_all_words_come_in_once_in_some_order(lists: Lists) -> None:
    assert lists.words != WORDS
    assert sorted(lists.words) == WORDS


@pytest.mark.parametrize("form", range(looking.LAST))
def test_a_word_of_the_request_stands_in_the_answers_line_alone(
    tokenizer: Tokenizer, lists: Lists, form: int
) -> None:
    rng = np.random.default_rng(form)
    ids, trained = lists.batch(4 * looking.LENGTH, form, looking.FIRST, rng)
    assert ids.shape == trained.shape == (4, looking.LENGTH + 1)
    answers = seconds = 0
    for row, on in zip(ids.tolist(), trained, strict=True):
        listed, _, asked = tokenizer.decode(row, False).partition("<|im_end|>\n")
        lines = listed.splitlines()[2:]
        assert 2 <= len(lines) <= 8
        assert form == 3 or len(set(re.findall("Q...", listed + asked))) <= looking.FIRST
        for at in np.flatnonzero(on):
            answer = tokenizer.decode([row[at]])
            before = tokenizer.decode(row[:at], False).partition("<|im_end|>\n")[2]
            begun = before.rpartition('"')[2] if form >= 2 else ""
            request = before.split("user\n")[-1] if form >= 2 else before.splitlines()[-1]
            said = re.findall("Q...", request.partition("<|im_end|>")[0])
            lines = [line.partition("(")[0] for line in lines]
            meant = [
                [line for line in lines if word in line]
                for word in said
                if sum(word in line for line in lines) == 1
            ]
            assert meant
            assert all(_name(line).startswith(begun + answer) for [line] in meant)
            seconds += begun != ""
            assert len(said) == 1 if form == 0 else len(said) <= 2 + looking.BESIDE
            answers += 1
    assert answers - seconds > (60, 20, 4, 2)[form]


def _name(line: str) -> str:
    return line.rpartition(": ")[2]


def test_calls_have_the_prompt_and_their_beginning_before_them(
    tokenizer: Tokenizer, lists: Lists
) -> None:
    ids, trained = lists.batch(looking.LENGTH, 2, 100, np.random.default_rng(1))
    at = int(np.flatnonzero(trained[0])[0])
    assert tokenizer.decode(ids[0, :at].tolist(), False).endswith(
        '<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n<tool_call>\n{"name": "'
    )


def test_sentences_have_small_words_and_their_tools_arguments(
    tokenizer: Tokenizer, lists: Lists
) -> None:
    rng = np.random.default_rng(3)
    ids, _ = lists.batch(8 * looking.LENGTH, looking.FORMS.index("sentence"), 100, rng)
    text = tokenizer.decode(ids.flatten().tolist(), False)
    assert re.search(r"Q... the Q...", text)
    assert re.search(r"\(Q...(\?: boolean|: \w+)", text)


def test_all_forms_of_all_words_come_side_by_side(tokenizer: Tokenizer, lists: Lists) -> None:
    ids, trained = lists.mixed(40 * looking.LENGTH, np.random.default_rng(2))
    words = {tokenizer.token_to_id(word) for word in lists.words}
    assert len(words & set(ids.flatten().tolist())) > 0.9 * len(words)
    calls = ["<tool_call>" in tokenizer.decode(row, False) for row in ids.tolist()]
    assert 15 < sum(calls) < 40
    plain = ["(Q" not in tokenizer.decode(row, False) for row in ids.tolist()]
    assert trained[plain].any(1).all()
    assert trained.any(1).mean() > 0.9  # a list with arguments, in bytes, may fill its row


def test_few_words_are_asked_for_in_one_form_after_another_and_then_all() -> None:
    progress = Progress(200)
    assert not any(progress.note(4.0) for _ in range(200))
    met = []
    while not progress.note(0.1):
        met.append((progress.form, progress.size))
    assert list(dict.fromkeys(met)) == [(0, 64), (1, 64), (2, 64), (3, 64), (4, 200)]
    assert all(met.count(each) >= looking.AT_LEAST - 1 for each in set(met[1:]) - {met[0]})
