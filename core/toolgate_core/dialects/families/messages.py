"""gpt-oss, Command R7B, Kimi K3 and Inkling: a turn is a list of typed messages."""

from __future__ import annotations

from ..codecs import Json, Tagged
from ..dialect import (
    ARGUMENTS,
    ID,
    NAME,
    CallIds,
    Calls,
    Content,
    Dialect,
    Golden,
    GoldenCall,
    Reasoning,
    Recognition,
    Switch,
)

_X = GoldenCall("f", {"a": "x"})
_ALL = {"a": "x", "n": 3, "ok": True, "l": ["p"], "o": {"k": 1.5}}
_ALL_JSON = '{"a": "x", "n": 3, "ok": true, "l": ["p"], "o": {"k": 1.5}}'

_ANALYSIS = "<|channel|>analysis<|message|>So.<|end|><|start|>assistant"
_HARMONY_CALL = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>"

GPT_OSS = Dialect(
    name="gpt_oss",
    models=("gpt-oss-20b", "gpt-oss-120b"),
    shape="name_json",
    calls=Calls(
        call=(
            "<|channel|>commentary to=functions.",
            NAME,
            " <|constrain|>json<|message|>",
            ARGUMENTS,
        ),
        parallel=False,
        ends=("<|call|>",),
    ),
    reasoning=Reasoning(
        begin="<|channel|>analysis<|message|>",
        end="<|end|>",
        after="<|start|>assistant",
        switch=Switch("reasoning_effort", on="medium", off=None, levels=("low", "medium", "high")),
    ),
    content=Content(
        begin="<|channel|>final<|message|>",
        preamble="<|channel|>commentary<|message|>",
        preamble_end="<|end|><|start|>assistant",
        turn="<|start|>assistant",
    ),
    ends_after_content=("<|return|>",),
    recognition=Recognition(template=("<|channel|>", "commentary", "functions.")),
    source="OpenAI's harmony response format; chat template of gpt-oss-120b",
    limits=("One call in a turn.", "Reasoning cannot be turned off."),
    goldens=(
        Golden(
            text=f"{_ANALYSIS}{_HARMONY_CALL}{_ALL_JSON}",
            reasoning="So.",
            calls=(GoldenCall("f", _ALL),),
        ),
        Golden(text=f'{_HARMONY_CALL}{{"a": "x"}}', calls=(_X,)),
        Golden(
            text=_HARMONY_CALL.replace(".f", ".g") + "{}",
            calls=(GoldenCall("g", {}),),
        ),
        Golden(
            text=f"{_ANALYSIS}<|channel|>final<|message|>Done.", reasoning="So.", content="Done."
        ),
        Golden(
            text=f"{_ANALYSIS}<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant"
            f'{_HARMONY_CALL}{{"a": "x"}}',
            reasoning="So.",
            content="Wait.",
            calls=(_X,),
        ),
    ),
)

_COHERE_TWO = (
    '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "f", "parameters": {"a": "x"}},\n'
    '    {"tool_call_id": "1", "tool_name": "g", "parameters": {}}\n]<|END_ACTION|>'
)

COHERE_R7B = Dialect(
    name="cohere_r7b",
    models=("Command R7B", "Command A"),
    shape="array",
    calls=Calls(
        begin="<|START_ACTION|>[\n    ",
        call=(
            '{"tool_call_id": "',
            ID,
            '", "tool_name": "',
            NAME,
            '", "parameters": ',
            ARGUMENTS,
            "}",
        ),
        separator=",\n    ",
        end="\n]<|END_ACTION|>",
        ids=CallIds("turn"),
    ),
    reasoning=Reasoning(
        begin="<|START_THINKING|>", end="<|END_THINKING|>", after="", switch=Switch("reasoning")
    ),
    content=Content(begin="<|START_RESPONSE|>", end="<|END_RESPONSE|>"),
    recognition=Recognition(template=("<|START_ACTION|>", "<|START_RESPONSE|>")),
    source="chat template of c4ai-command-r7b-12-2024",
    limits=("No content before calls: the plan is the reasoning.",),
    goldens=(
        Golden(
            text=f"<|START_THINKING|>So.<|END_THINKING|>{_COHERE_TWO}",
            reasoning="So.",
            calls=(GoldenCall("f", {"a": "x"}, id="0"), GoldenCall("g", {}, id="1")),
        ),
        Golden(
            text='<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "f", "parameters": '
            f"{_ALL_JSON}}}\n]<|END_ACTION|>",
            calls=(GoldenCall("f", _ALL, id="0"),),
        ),
        Golden(text="<|START_RESPONSE|>Done.<|END_RESPONSE|>", content="Done."),
        Golden(
            text="So.<|END_THINKING|><|START_RESPONSE|>Done.<|END_RESPONSE|>",
            reasoning="So.",
            content="Done.",
            reasoning_open=True,
        ),
    ),
)

_K3_TYPES = (
    ("string", "string"),
    ("integer", "number"),
    ("number", "number"),
    ("boolean", "boolean"),
    ("null", "null"),
    ("object", "object"),
    ("array", "array"),
)
_K3_SPECIAL = "<|close|>argument<|sep|>"
_K3_EMPTY = "<|open|>response<|sep|><|close|>response<|sep|>"
_K3_END = "<|close|>message<|sep|>"


def _k3_argument(key: str, kind: str, value: str) -> str:
    return f'<|open|>argument key="{key}" type="{kind}"<|sep|>{value}{_K3_SPECIAL}'


def _k3_call(name: str, index: int, *arguments: str) -> str:
    begin = f'<|open|>call tool="{name}" index="{index}"<|sep|>'
    return f"{begin}{''.join(arguments)}<|close|>call<|sep|>"


def _k3_tools(*calls: str) -> str:
    return f"<|open|>tools<|sep|>{''.join(calls)}<|close|>tools<|sep|>{_K3_END}"


_K3_A = _k3_argument("a", "string", "x")

KIMI_K3 = Dialect(
    name="kimi_k3",
    models=("Kimi K3",),
    shape="tagged",
    calls=Calls(
        begin="<|open|>tools<|sep|>",
        call=(
            '<|open|>call tool="',
            NAME,
            '" index="',
            ID,
            '"<|sep|>',
            ARGUMENTS,
            "<|close|>call<|sep|>",
        ),
        end=f"<|close|>tools<|sep|>{_K3_END}",
        codec=Tagged(
            '<|open|>argument key="',
            '" type="{type}"<|sep|>',
            _K3_SPECIAL,
            close=_K3_SPECIAL,
            types=_K3_TYPES,
            escapes=(("&", "&amp;"), ('"', "&quot;")),
        ),
        ids=CallIds("turn", first=1),
    ),
    reasoning=Reasoning(
        begin="<|open|>think<|sep|>",
        end="<|close|>think<|sep|>",
        after="",
        switch=Switch("thinking"),
    ),
    content=Content(
        begin="<|open|>response<|sep|>",
        end="<|close|>response<|sep|>",
        last=_K3_END,
        preamble="<|open|>response<|sep|>",
        preamble_end="<|close|>response<|sep|>",
        always=True,
    ),
    recognition=Recognition(template=("<|open|>", "<|sep|>", "<|close|>")),
    source="vLLM's parser and structural tag kimi_k3",
    limits=(f"A string value cannot contain `{_K3_SPECIAL}`.",),
    goldens=(
        Golden(
            text=f"{_K3_EMPTY}{_k3_tools(_k3_call('f', 1, _K3_A), _k3_call('g', 2))}",
            calls=(GoldenCall("f", {"a": "x"}, id="1"), GoldenCall("g", {}, id="2")),
        ),
        Golden(
            text="<|open|>think<|sep|>So.<|close|>think<|sep|><|open|>response<|sep|>Wait."
            "<|close|>response<|sep|>"
            + _k3_tools(
                _k3_call(
                    "f",
                    1,
                    _K3_A,
                    _k3_argument("n", "number", "3"),
                    _k3_argument("ok", "boolean", "true"),
                    _k3_argument("l", "array", '["p"]'),
                    _k3_argument("o", "object", '{"k": 1.5}'),
                )
            ),
            reasoning="So.",
            content="Wait.",
            calls=(GoldenCall("f", _ALL, id="1"),),
        ),
        Golden(
            text=f"<|open|>response<|sep|>Done.<|close|>response<|sep|>{_K3_END}", content="Done."
        ),
    ),
)

_INKLING_CALL = (
    '<|message_model|><|content_invoke_tool_json|>{"name":"f","args":{"a":"x"}}<|end_message|>'
)
_INKLING_THOUGHT = "<|message_model|><|content_thinking|>So.<|end_message|>"
_INKLING_TEXT = "<|message_model|><|content_text|>Wait.<|end_message|>"

INKLING = Dialect(
    name="inkling",
    models=("Inkling",),
    shape="object",
    calls=Calls(
        call=(
            '<|message_model|><|content_invoke_tool_json|>{"name":"',
            NAME,
            '","args":',
            ARGUMENTS,
            "}<|end_message|>",
        ),
        codec=Json(item_separator=",", key_separator=":"),
    ),
    reasoning=Reasoning(
        begin="<|message_model|><|content_thinking|>",
        end="<|end_message|>",
        after="",
        switch=Switch("reasoning_effort", on=0.5, off=0.0),
    ),
    content=Content(
        begin="<|message_model|><|content_text|>",
        end="<|end_message|>",
        preamble="<|message_model|><|content_text|>",
        preamble_end="<|end_message|>",
    ),
    recognition=Recognition(template=("<|content_invoke_tool_json|>",)),
    source="vLLM's inkling_encoding.py",
    goldens=(
        Golden(text=f"{_INKLING_CALL}{_INKLING_CALL}", calls=(_X, _X)),
        Golden(
            text=_INKLING_CALL.replace(
                '{"a":"x"}', '{"a":"x","n":3,"ok":true,"l":["p"],"o":{"k":1.5}}'
            ),
            calls=(GoldenCall("f", _ALL),),
        ),
        Golden(
            text=_INKLING_CALL.replace('"f"', '"g"').replace('{"a":"x"}', "{}"),
            calls=(GoldenCall("g", {}),),
        ),
        Golden(
            text=f"{_INKLING_THOUGHT}{_INKLING_TEXT}{_INKLING_CALL}",
            reasoning="So.",
            content="Wait.",
            calls=(_X,),
        ),
        Golden(text=f"{_INKLING_THOUGHT}{_INKLING_TEXT}", reasoning="So.", content="Wait."),
    ),
)

DIALECTS = (GPT_OSS, COHERE_R7B, KIMI_K3, INKLING)
