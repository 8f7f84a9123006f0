"""gpt-oss, Command R7B, Kimi K3 and Inkling: a turn is a list of typed messages."""

from __future__ import annotations

from ..dialect import (
    ARGUMENTS,
    ID,
    NAME,
    CallIds,
    Calls,
    Content,
    Dialect,
    Json,
    Reasoning,
    Recognition,
    Switch,
    Tagged,
)

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
_K3_END = "<|close|>message<|sep|>"

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
)

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
)
