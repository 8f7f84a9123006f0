"""The state of the reasoning and of calls at the end of a prompt."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
from transformers import AddedToken

from toolgate_backend.endpoint.service import TurnStart
from toolgate_backend.tokens.vocabulary import Vocabulary, make_vocabulary
from toolgate_core.dialects.dialect import Dialect, Reasoning
from toolgate_core.dialects.families.hermes import HERMES, QWEN3
from toolgate_core.dialects.registry import DIALECTS
from toolgate_core.errors import UnsupportedParameter
from toolgate_core.wire import ReasoningMode

TEXT_REASONING = Reasoning(begin="Thoughts:", end="Answer:")
USER = "<|im_start|>user\n{}<|im_end|>\n<|im_start|>assistant\n"


def turn_start(vocabulary: Vocabulary, dialect: Dialect) -> TurnStart:
    marks = vocabulary.marks
    made = make_vocabulary(vocabulary.tokenizer, vocabulary.size, marks.end_of_turn, dialect)
    return TurnStart(made)


@pytest.mark.parametrize("in_text", [False, True])
@pytest.mark.parametrize(
    ("turn", "mode", "start"),
    [
        ("", "default", "may"),
        ("", "on", "must"),
        ("", "off", "closed"),
        ("BEGIN so", "default", "open"),
        ("BEGIN so", "on", "open"),
        ("BEGIN so", "off", "open"),
        ("BEGIN so END yes", "default", "closed"),
        ("BEGIN so END yes", "off", "closed"),
        ("BEGIN so END yes<|im_end|>\n<|im_start|>assistant\n", "default", "may"),
    ],
)
def test_reasoning_starts_as_the_prompt_and_the_mode_require(
    vocabulary: Vocabulary, turn: str, mode: ReasoningMode, start: str, in_text: bool
) -> None:
    reasoning = TEXT_REASONING if in_text else Reasoning()
    turn = turn.replace("BEGIN", reasoning.begin).replace("END", reasoning.end)
    ids = vocabulary.tokenizer.encode(USER.format("Hi") + turn, add_special_tokens=False)
    found = turn_start(vocabulary, replace(QWEN3, reasoning=reasoning))
    assert found.reasoning(ids, mode) == start


def test_the_users_text_does_not_open_the_reasoning(vocabulary: Vocabulary) -> None:
    found = turn_start(vocabulary, replace(QWEN3, reasoning=TEXT_REASONING))
    text = USER.format("Thoughts: hm").replace("<|im_end|>", "")
    ids = vocabulary.tokenizer.encode(text, add_special_tokens=False)
    assert found.reasoning(ids, "default") == "may"


def test_a_model_without_reasoning_does_not_reason(vocabulary: Vocabulary) -> None:
    assert turn_start(vocabulary, HERMES).reasoning([1, 2], "default") == "closed"


def test_an_open_call_is_not_continued(vocabulary: Vocabulary) -> None:
    found = turn_start(vocabulary, QWEN3)
    encode = vocabulary.tokenizer.encode
    whole = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>'
    found.refuse_open_call(encode(USER.format("Hi") + whole, add_special_tokens=False))
    with pytest.raises(UnsupportedParameter) as refused:
        found.refuse_open_call(encode(USER.format("Hi") + whole[:30], add_special_tokens=False))
    assert refused.value.param == "continue_final_message"


HARMONY = (
    "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>analysis<|message|>So.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>Yes.<|end|><|start|>user<|message|>Hm<|end|>"
    "<|start|>assistant"
)


@pytest.mark.parametrize("in_text", [False, True])
@pytest.mark.parametrize(
    ("turn", "mode", "start"),
    [
        ("", "default", "may"),
        ("", "on", "must"),
        ("", "off", "closed"),
        ("<|channel|>analysis<|message|>So", "default", "open"),
        ("<|channel|>final<|message|>So", "default", "content"),
        ("<|channel|>final<|message|>So", "on", "content"),
    ],
)
def test_messages_start_as_the_prompt_requires(
    vocabulary: Vocabulary, turn: str, mode: ReasoningMode, start: str, in_text: bool
) -> None:
    tokenizer = copy.deepcopy(vocabulary.tokenizer)
    if not in_text:
        marks = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>"]
        tokenizer.add_tokens([AddedToken(mark, special=True) for mark in marks])
    ends = vocabulary.marks.end_of_turn
    made = make_vocabulary(tokenizer, len(tokenizer) + 64, ends, DIALECTS["gpt_oss"])
    ids = tokenizer.encode(HARMONY + turn, add_special_tokens=False)
    assert TurnStart(made).reasoning(ids, mode) == start
