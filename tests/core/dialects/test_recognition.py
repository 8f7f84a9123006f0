"""Chat templates are recognised, and the calls that they write are read back."""

import json
import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.dialects.golden_tokens import GoldenTokens, joined, joined_deltas, message_of
from tests.support.shared_data import TEMPLATES
from toolgate_core.dialects.dialect import Golden, GoldenCall, Json, Slot
from toolgate_core.dialects.marks import mark_texts
from toolgate_core.dialects.registry import DIALECTS, recognise
from toolgate_core.errors import EnforcementFailed
from toolgate_core.segmenter import Segmenter
from toolgate_core.wire import MarkIds

_DATA = json.loads((Path(__file__).parent / "templates.json").read_text())
EXPECTED = _DATA["dialects"]
WITH_CALLS = [dialect for dialect in DIALECTS.values() if dialect.calls]
NO_CALLS = ("google-gemma-2-2b-it", "microsoft-Phi-3.5-mini-instruct")
_TOKEN = re.compile(r"<[^<>\s\"'{}]+>|\[/?[A-Z_]+\]|｜[A-Z]+｜")

shared = pytest.mark.skipif(
    not TEMPLATES.is_dir(), reason="the chat templates are in $TOOLGATE_SHARED, which is absent"
)


def template(name):
    return (TEMPLATES / f"{name}.jinja").read_text()


@shared
@pytest.mark.parametrize("tokens", ["known", "unknown"])
@pytest.mark.parametrize("name", EXPECTED)
def test_a_template_is_recognised(name, tokens):
    text = template(name)
    added = frozenset(_TOKEN.findall(text)) if tokens == "known" else frozenset[str]()
    found = recognise(added, text)
    assert found.dialect.name == EXPECTED[name], found.reason
    assert found.warnings == ()


@shared
@pytest.mark.parametrize("name", NO_CALLS)
def test_a_template_without_calls_is_plain(name):
    found = recognise((), template(name))
    assert found.dialect.name == "plain"
    assert found.warnings == ()


@pytest.mark.parametrize("dialect", WITH_CALLS, ids=lambda dialect: dialect.name)
def test_a_template_with_all_texts_of_a_dialect_is_recognised(dialect):
    """Texts that several families write, such as `<tool_call>`, do not make it ambiguous."""
    texts = [*dialect.recognition.template, *dialect.literals]
    found = recognise((), "\n".join(dict.fromkeys(texts)))
    assert found.dialect is dialect, found.reason
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("tokens", "name"),
    [
        (("<s>",), "plain"),
        (("<tool_call>", "</tool_call>"), "hermes"),
        (("<tool_call>", "</tool_call>", "<think>", "</think>"), "qwen3"),
        (("<|tool_calls_section_begin|>", "<|tool_call_argument_begin|>"), "kimi_k2"),
        (("<|tools_prefix|>", "<|tools_suffix|>"), "apertus"),
        (("<|action_start|>", "<|action_end|>", "<|plugin|>"), "internlm2"),
        (("<|action_start|>", "<|action_end|>", "<|plugin|>", "<think>"), "intern_s1"),
        (("[TOOL_CALLS]", "[TOOL_RESULTS]", "[ARGS]", "[CALL_ID]"), "mistral_v11"),
    ],
)
def test_tokens_of_one_family_name_its_dialect(tokens, name):
    found = recognise(tokens)
    assert found.dialect.name == name
    assert found.warnings == ()


def test_tokens_that_fit_two_dialects_equally_are_ambiguous():
    found = recognise(("<｜tool▁calls▁begin｜>", "<｜tool▁sep｜>"))
    [warning] = found.warnings
    assert "deepseek_r1" in warning
    assert "deepseek_v31" in warning


def test_a_template_of_no_dialect_contradicts_the_tokens():
    found = recognise(("<tool_call>", "</tool_call>"), "{{ tools }}")
    assert found.dialect.name == "hermes"
    [warning] = found.warnings
    assert "TOOLGATE_DIALECT" in warning


def test_a_template_that_fits_two_dialects_equally_is_ambiguous():
    found = recognise((), "<|tools_prefix|> <TOOLCALL>")
    [warning] = found.warnings
    assert "apertus" in warning
    assert "nemotron_nano2" in warning


def test_a_template_with_tools_but_without_calls_of_a_dialect_is_plain():
    found = recognise((), "{% for tool in tools %}{{ tool }}{% endfor %}")
    assert found.dialect.name == "plain"
    [warning] = found.warnings
    assert "refused" in warning


ONE = {"city": "Paris", "days": 3, "metric": True, "tags": ["a", "b"], "opt": {"a": "x"}}
TWO = {"city": "Rome"}
SCHEMAS = {"get_weather": {"type": "object", "properties": {"city": {"type": "string"}}}}

NOT_THE_OUTPUT = _DATA["other calls than the model's"]
"""Templates that write earlier calls in another form than the model."""

NOT_RENDERED = ("fireworks-ai-llama-3-firefunction-v2", "llama-cpp-deepseek-r1")
"""Templates that are not in rendered.json."""

CASES = [
    name
    for name, dialect in EXPECTED.items()
    if name not in (*NOT_THE_OUTPUT, *NOT_RENDERED)
    and (calls := DIALECTS[dialect].calls) is not None
    and isinstance(calls.codec, Json)
]
_END = re.compile(
    r"(<\|(im_end|eot_id|eom_id|eot|eom|eos|end|calls|endoftext|end_of_text)\|>|<EOS>|<sep>"
    r"|<SPECIAL_12>|<｜end▁of▁sentence｜>|<end_of_sentence>|(?<=\})<\|message_sep\|>"
    r"|\[RES1|<\|assistant_start\|>)"
)


@cache
def renderings():
    found = json.loads((TEMPLATES / "rendered.json").read_text())
    names = (
        each["template"].removesuffix(".jinja").replace("tool_chat_template_", "vllm-")
        for each in found
    )
    return dict(zip(names, found, strict=True))


def call_text(dialect, rendered):
    """The calls in `rendered`, up to the end of the turn."""
    assert dialect.calls is not None
    first = dialect.calls.call[0]
    begin = dialect.calls.begin + ("get_weather" if isinstance(first, Slot) else first)
    at = rendered.index(begin)
    return _END.split(rendered[at:], maxsplit=1)[0]


@shared
@pytest.mark.parametrize("special", [True, False], ids=["marks_are_tokens", "marks_are_text"])
@pytest.mark.parametrize("name", CASES)
def test_rendered_calls_are_read(name, special):
    dialect = DIALECTS[EXPECTED[name]]
    assert dialect.calls is not None
    found = GoldenTokens(dialect, mark_texts(dialect) if special else (), SCHEMAS)
    rendered = renderings()[name]
    wanted = {"one_call_after_user_text": [ONE]}
    if dialect.calls.parallel:
        wanted["two_calls_results_and_prompt"] = [TWO, TWO]
    for key, arguments in wanted.items():
        text = call_text(dialect, rendered[key])
        message = message_of(found.segment(Golden(text=text), [joined(found.units(text))]))
        assert [call.name for call in message.calls] == ["get_weather"] * len(arguments)
        assert [call.arguments for call in message.calls] == arguments
        assert message.content is None


WEATHER = {
    "get_weather": {
        "type": "object",
        "properties": {
            "city": {"type": "string"},
            "days": {"type": "integer"},
            "metric": {"type": "boolean"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "opt": {"type": "object"},
        },
    }
}
DEFECTS = _DATA["not read back"]
"""Templates whose text is not what their models write."""
_TURN_END = re.compile(
    r"(<\|[a-z_]+\|>|<EOS>|<｜end▁of▁sentence｜>|<SPECIAL_12>|<seed:eos>|\[e~\[|<end_of_sentence>"
    r"|<sep>|<turn\|>|<end_of_turn>|<\|tool_response>)\s*\Z"
)


def rendered():
    path = TEMPLATES / "rendered.json"
    return json.loads(path.read_text()) if path.exists() else []


def template_of(name):
    path = TEMPLATES / name
    return path if path.exists() else TEMPLATES / name.replace("tool_chat_template_", "vllm-")


@pytest.mark.parametrize("entry", rendered(), ids=lambda entry: str(entry["template"]))
def test_a_rendered_call_is_read_back(entry):
    name = entry["template"]
    path = template_of(name)
    dialect = recognise((), path.read_text()).dialect
    if dialect.calls is None or entry["one_call_after_user_text"].startswith("!!"):
        pytest.skip("the template has no form for calls")
    first = dialect.calls.begin + "".join(p for p in dialect.calls.call[:1] if isinstance(p, str))
    text = entry["one_call_after_user_text"].removeprefix(entry["generation_prompt"])
    text = text[max(text.find(first.strip()[:8]), 0) :]
    closing = dialect.calls.end or str(dialect.calls.call[-1])
    while (match := _TURN_END.search(text)) and not text.rstrip("\n").endswith(closing.strip()):
        text = text[: match.start()].rstrip()
    text = text.rstrip("\n") + "\n" * closing.endswith("\n")
    segmenter = Segmenter(dialect, MarkIds(), schemas=WEATHER)
    try:
        events = segmenter.feed([1] * len(text), list(text)) + segmenter.finish("stop")
        calls = message_of(joined_deltas(events)).calls
    except EnforcementFailed:
        calls = ()
    whole = [GoldenCall(call.name, call.arguments) for call in calls] == [
        GoldenCall("get_weather", ONE)
    ]
    assert whole is (name not in DEFECTS), text


@pytest.mark.skipif(
    not TEMPLATES.exists(), reason="the chat templates are in $TOOLGATE_SHARED, which is absent"
)
def test_at_least_forty_templates_are_read_back():
    with_calls = [
        entry
        for entry in rendered()
        if recognise((), template_of(entry["template"]).read_text()).dialect.calls
    ]
    assert len(with_calls) - len(DEFECTS) >= 40
