"""Tiny models in every dialect: their chat templates write what the segmenter reads."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import transformers
from transformers.utils.chat_template_utils import render_jinja_template

from tests.support.dialects.golden_tokens import SCHEMAS
from tests.support.effort import rotating
from toolgate_core.dialects.dialect import (
    Codec,
    Dialect,
    FlatTags,
    GemmaValues,
    Golden,
    Json,
    NestedTags,
    Pythonic,
)
from toolgate_core.dialects.marks import marks_in
from toolgate_core.dialects.registry import DIALECTS, PLAIN, recognise
from toolgate_core.segmenter import Segmenter
from toolgate_core.turn_text import TurnMessage
from toolgate_core.wire import MarkIds

from .family_template import PASS_BACK, chat_template, turn_texts, write_macro
from .tiny_family import MarkTokens, build, end_tokens, tokenizer

WITH_CALLS = {name: dialect for name, dialect in DIALECTS.items() if dialect.calls}
FAMILIES: pytest.MarkDecorator = rotating("name", WITH_CALLS, one_in=9)
REASONING: pytest.MarkDecorator = rotating(
    "name", [name for name, each in WITH_CALLS.items() if each.reasoning], one_in=9
)


TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": schema}}
    for name, schema in SCHEMAS.items()
]
USER = {"role": "user", "content": "Hi."}


@cache
def model(name: str, marks: MarkTokens) -> Any:
    """The tokenizer."""
    return transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer(DIALECTS[name], marks))


@cache
def template(name: str) -> str:
    return chat_template(DIALECTS[name])


def render(name: str, messages: list[Any], **how: Any) -> str:
    """The prompt, rendered as `apply_chat_template` does."""
    rendered, _ = render_jinja_template([messages], chat_template=template(name), **how)
    return str(rendered[0])


def message_of(golden: Golden) -> dict[str, Any]:
    calls = [
        {
            "id": call.id or f"call_{at}",
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for at, call in enumerate(golden.calls)
    ]
    message: dict[str, Any] = {"role": "assistant", "content": golden.content}
    if golden.reasoning:
        message["reasoning_content"] = golden.reasoning
    return message | ({"tool_calls": calls} if calls else {})


def turn_of(name: str, golden: Golden) -> str:
    """The turn that the template writes of the golden's message, without its header and end."""
    turn = turn_texts(DIALECTS[name])
    before = render(name, [USER]) + turn.header
    whole = render(name, [USER, message_of(golden)])
    end = (turn.after_calls if golden.calls else turn.after_content) + "\n"
    assert whole.startswith(before)
    assert whole.endswith(end)
    return whole[len(before) : -len(end)]


def segment(name: str, marks: MarkTokens, text: str) -> TurnMessage:
    """The message of `text`, in the tokens of the model."""
    dialect, made = DIALECTS[name], model(name, marks)
    added = made.get_added_vocab()
    ids = MarkIds(
        tokens={mark: added[mark] for mark in marks_in(dialect.literals, added)},
        end_of_turn=tuple(added[end] for end in end_tokens(dialect)),
    )
    segmenter = Segmenter(dialect, ids, schemas=SCHEMAS)
    encoded = made(text, add_special_tokens=False, return_offsets_mapping=True)
    message, at = TurnMessage(), 0
    for token, (_, end) in zip(encoded["input_ids"], encoded["offset_mapping"], strict=True):
        for event in segmenter.feed([token], [text[at:end]]):
            message.add(event)
        at = max(at, end)
    for event in segmenter.finish("stop"):
        message.add(event)
    return message


@pytest.mark.exhaustive
@FAMILIES
@pytest.mark.parametrize("marks", ["all", pytest.param("none", marks=pytest.mark.slow)])
def test_the_segmenter_reads_what_the_template_writes(name: str, marks: MarkTokens) -> None:
    found = recognise(model(name, marks).get_added_vocab(), template(name))
    assert found.dialect.name == name, found.reason
    for golden in WITH_CALLS[name].goldens:
        read = segment(name, marks, turn_of(name, golden))
        assert (read.content, read.reasoning) == (golden.content or "", golden.reasoning or "")
        made = [
            (call.name, json.loads(arguments))
            for call, arguments in zip(read.calls, read.arguments, strict=True)
        ]
        assert made == [(call.name, call.arguments) for call in golden.calls]
        pairs = zip(golden.calls, read.calls, strict=True)
        assert all(call.id in (None, c.id) for call, c in pairs)


@pytest.mark.exhaustive
@FAMILIES
def test_the_template_writes_a_transcript_of_the_family(name: str) -> None:
    only_calls = [
        golden for golden in WITH_CALLS[name].goldens if not golden.content and not golden.reasoning
    ]
    same = [golden for golden in only_calls if turn_of(name, golden) == golden.text.lstrip("\n")]
    assert same or not only_calls


@FAMILIES
def test_prompts_have_the_tools_and_the_results(name: str) -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        USER,
        message_of(next(golden for golden in WITH_CALLS[name].goldens if golden.calls)),
        {"role": "tool", "tool_call_id": "call_0", "content": "sunny"},
    ]
    prompt = render(name, messages, tools=TOOLS, add_generation_prompt=True)
    for tool in TOOLS:
        assert json.dumps(tool) in prompt
    for text in ("Be brief.", "Hi.", "sunny"):
        assert text in prompt
    assert render(name, messages, add_generation_prompt=True).count("Be brief.") == 1


@REASONING
def test_the_switch_turns_the_reasoning_off(name: str) -> None:
    reasoning = WITH_CALLS[name].reasoning
    assert reasoning is not None
    header = turn_texts(WITH_CALLS[name]).header
    default = render(name, [USER], add_generation_prompt=True)
    assert default.rpartition(header)[2].strip() in ("", reasoning.begin.strip())
    if reasoning.switch is None or reasoning.switch.off is None:
        return
    off: dict[str, Any] = {reasoning.switch.argument: reasoning.switch.off}
    prompt = render(name, [USER], add_generation_prompt=True, **off)
    begun = prompt[len(render(name, [USER])) :].removeprefix(header)
    assert begun.startswith(reasoning.begin)
    assert begun.endswith(reasoning.end + reasoning.after)
    on: dict[str, Any] = {reasoning.switch.argument: reasoning.switch.on}
    assert render(name, [USER], add_generation_prompt=True, **on) == default


@REASONING
def test_reasoning_of_earlier_turns_is_left_out_unless_the_family_passes_it_back(name: str) -> None:
    earlier = {"role": "assistant", "content": "Yes.", "reasoning_content": "Hm."}
    assert ("Hm." in render(name, [USER, earlier, USER])) == (name in PASS_BACK)
    assert "Hm." in render(name, [USER, earlier])


def test_content_in_parts_is_joined() -> None:
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo."}]
    assert "Hello." in render("hermes", [{"role": "user", "content": parts}])


def test_a_dialect_without_calls_has_no_template() -> None:
    with pytest.raises(ValueError, match="plain"):
        chat_template(PLAIN)


def test_directory_with_other_files_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError):
        build(tmp_path, DIALECTS["hermes"])
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_model_has_its_end_tokens_and_loads(tmp_path: Path) -> None:
    dialect: Dialect = DIALECTS["gpt_oss"]
    build(tmp_path / "tiny", dialect, "all")
    written = (tmp_path / "tiny" / "fingerprint.txt").stat().st_mtime_ns
    build(tmp_path / "tiny", dialect, "all")
    assert (tmp_path / "tiny" / "fingerprint.txt").stat().st_mtime_ns == written
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path / "tiny")
    generation = transformers.GenerationConfig.from_pretrained(tmp_path / "tiny")
    ends = loaded.convert_ids_to_tokens(generation.eos_token_id)
    assert ends == ["<|return|>", "<|call|>", "<|endoftext|>"]
    [mark] = loaded.encode("<|channel|>", add_special_tokens=False)
    assert loaded.decode([mark]) == "<|channel|>"
    size = transformers.AutoConfig.from_pretrained(tmp_path / "tiny").vocab_size
    assert mark < len(loaded) <= size


# --- arguments ---

CASES = json.loads(Path(__file__).with_name("tiny_family.json").read_text())
CODECS: dict[str, Codec] = {
    "json": Json(),
    "json without spaces": Json(item_separator=",", key_separator=":"),
    "tags": FlatTags("<p=", ">", "</p>", close="</p>"),
    "nested tags": NestedTags(namespace="]m["),
    "gemma": GemmaValues(quote='<|"|>'),
    "gemma without braces": GemmaValues(quote="<escape>", braces=False),
    "pythonic": Pythonic(),
    "pythonic with json": Pythonic(quote="'", json_objects=True),
}


@pytest.mark.parametrize("name", CODECS)
def test_values_are_written_in_the_form_of_the_codec(name: str) -> None:
    call = {"role": "assistant", "content": None, "arguments": CASES["arguments"]}
    template = write_macro(CODECS[name]) + "{{- write(messages[0].arguments) }}"
    [[rendered], _] = render_jinja_template([[call]], chat_template=template)
    assert str(rendered).strip() == CASES["written"][name]
