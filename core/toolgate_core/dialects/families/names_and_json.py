"""Families that write the name of a call, then its arguments as JSON, and no end of all calls."""

from __future__ import annotations

from dataclasses import replace

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
from ..golden_texts import golden_calls

_NO_CONTENT = "No content before calls."
_IDS = ("call00001", "call00002")

MISTRAL_V11 = Dialect(
    name="mistral_v11",
    text_marks=("<think>", "</think>"),
    models=("Mistral Small 3.2", "Magistral Small 2506"),
    shape="name_json",
    calls=Calls(
        call=("[TOOL_CALLS]", NAME, "[CALL_ID]", ID, "[ARGS]", ARGUMENTS),
        ids=CallIds("random", length=9),
    ),
    reasoning=Reasoning(after="\n", switch=None),
    recognition=Recognition(
        template=("[TOOL_CALLS]", "[CALL_ID]"), tokens=("[TOOL_CALLS]", "[ARGS]", "[CALL_ID]")
    ),
    source="chat template of Mistral-Small-3.2-24B-Instruct-2506",
    limits=("Only the system prompt turns the reasoning of Magistral on; Small 3.2 has none.",),
    goldens=golden_calls(
        lambda name,
        arguments,
        number: f"[TOOL_CALLS]{name}[CALL_ID]{_IDS[number]}[ARGS]{arguments}",
        ids=_IDS,
        before="Wait.",
        reasoning=("<think>\n", "\n</think>", "\n"),
    ),
)

MISTRAL_V13 = Dialect(
    name="mistral_v13",
    models=("Devstral", "Magistral 2507", "Ministral 3", "Mistral Large 3"),
    shape="name_json",
    calls=Calls(call=("[TOOL_CALLS]", NAME, "[ARGS]", ARGUMENTS)),
    reasoning=Reasoning(begin="[THINK]", end="[/THINK]", after="", switch=None),
    recognition=Recognition(
        template=("[TOOL_CALLS]", "[ARGS]"),
        without=("[CALL_ID]",),
        tokens=("[TOOL_CALLS]", "[ARGS]", "[THINK]"),
    ),
    source="chat templates of Devstral-Small-2507 and Ministral-3-14B-Reasoning-2512",
    limits=("Only the system prompt turns reasoning on; Devstral has none.",),
    goldens=golden_calls(
        lambda name, arguments, number: f"[TOOL_CALLS]{name}[ARGS]{arguments}",
        before="Wait.",
        reasoning=("[THINK]", "[/THINK]", ""),
    ),
)

_SOLAR_IDS = ("call000001", "call000002")
_SOLAR = golden_calls(
    lambda name, arguments, number: (
        f"<|tool_call:begin|>{_SOLAR_IDS[number]}<|tool_call:name|>{name}<|tool_call:args|>"
        f"{arguments}<|tool_call:end|>"
    ),
    begin="<|tool_calls|>",
    ids=_SOLAR_IDS,
    before=None,
)
_SOLAR_THOUGHT = "<|think|>So.<|end|><|begin|>assistant"

SOLAR_OPEN = Dialect(
    name="solar_open",
    models=("Solar Open 100B",),
    shape="name_json",
    calls=Calls(
        begin="<|tool_calls|>",
        call=(
            "<|tool_call:begin|>",
            ID,
            "<|tool_call:name|>",
            NAME,
            "<|tool_call:args|>",
            ARGUMENTS,
            "<|tool_call:end|>",
        ),
        ids=CallIds("random", length=10),
        ends=("<|calls|>",),
    ),
    reasoning=Reasoning(
        begin="<|think|>",
        end="<|end|>",
        after="<|begin|>assistant",
        switch=Switch(
            "reasoning_effort", on="high", off="minimal", levels=("low", "medium", "high")
        ),
    ),
    content=Content(begin="<|content|>", turn="<|begin|>assistant"),
    recognition=Recognition(
        template=("<|tool_call:begin|>",), tokens=("<|tool_calls|>", "<|tool_call:begin|>")
    ),
    source="chat template of Solar-Open-100B",
    limits=(_NO_CONTENT,),
    goldens=(
        *_SOLAR,
        Golden(text=_SOLAR_THOUGHT + _SOLAR[1].text, reasoning="So.", calls=_SOLAR[1].calls),
        Golden(text=f"{_SOLAR_THOUGHT}<|content|>Done.", reasoning="So.", content="Done."),
    ),
)

GLM4_0414 = Dialect(
    name="glm4_0414",
    models=("GLM-4-0414", "GLM-4-9B-chat"),
    shape="name_json",
    calls=Calls(
        call=(NAME, "\n", ARGUMENTS),
        parallel=False,
        only_at_start=True,
        ends=("<|observation|>",),
    ),
    ends_after_content=("<|user|>",),
    recognition=Recognition(
        template=("<|observation|>", "<|assistant|>"), without=("<tool_call>", "<arg_key>")
    ),
    source="ms-swift's agent template of GLM-4-0414",
    limits=("One call in a turn.", _NO_CONTENT),
    goldens=golden_calls(
        lambda name, arguments, number: f"{name}\n{arguments}", parallel=False, before=None
    ),
)

FUNCTIONARY31 = Dialect(
    name="functionary31",
    text_marks=("</function>",),
    models=("Functionary v3.1",),
    shape="name_json",
    calls=Calls(call=("<function=", NAME, ">", ARGUMENTS, "</function>"), ends=("<|eom_id|>",)),
    recognition=Recognition(template=("<function=", "</function>", "<|eom_id|>")),
    source="chat template of functionary-medium-v3.1",
    goldens=golden_calls(
        lambda name, arguments, number: f"<function={name}>{arguments}</function>"
    ),
)

FUNCTIONARY32 = Dialect(
    name="functionary32",
    models=("Functionary v3.2",),
    shape="name_json",
    calls=Calls(call=(NAME, "\n", ARGUMENTS), separator=">>>"),
    content=Content(begin="all\n"),
    recognition=Recognition(template=(">>>all",)),
    source="chat template of functionary-medium-v3.2",
    limits=(_NO_CONTENT,),
    goldens=(
        *golden_calls(
            lambda name, arguments, number: f"{name}\n{arguments}", between=">>>", before=None
        ),
        Golden(text="all\nDone.", content="Done."),
    ),
)

LLAMA31 = Dialect(
    name="llama31",
    models=("Llama 3.1", "Llama 3.2", "Llama 3.3"),
    shape="bare",
    calls=Calls(
        call=('{"name": "', NAME, '", "parameters": ', ARGUMENTS, "}"),
        parallel=False,
        only_at_start=True,
    ),
    recognition=Recognition(
        template=('"parameters": ', "<|start_header_id|>"), without=("<|eom|>",)
    ),
    source="chat template of Llama-3.1-8B-Instruct",
    limits=("One call in a turn.", _NO_CONTENT),
    goldens=golden_calls(
        lambda name, arguments, number: f'{{"name": "{name}", "parameters": {arguments}}}',
        parallel=False,
        before=None,
    ),
)

LLAMA4_JSON = replace(
    LLAMA31,
    name="llama4_json",
    models=("Llama 4",),
    calls=Calls(call=('{"name": "', NAME, '", "parameters": ', ARGUMENTS, "}"), only_at_start=True),
    recognition=Recognition(template=("<|header_start|>", '"parameters": ', '{"name": ')),
    source="vLLM's example template llama4_json",
    limits=(_NO_CONTENT,),
    goldens=(
        *golden_calls(
            lambda name, arguments, number: f'{{"name": "{name}", "parameters": {arguments}}}',
            before=None,
        ),
        Golden(
            text='{"name": "g", "parameters": {}}{"name": "g", "parameters": {}}',
            calls=(GoldenCall("g", {}), GoldenCall("g", {})),
        ),
    ),
)

DIALECTS = (
    MISTRAL_V11,
    MISTRAL_V13,
    SOLAR_OPEN,
    GLM4_0414,
    FUNCTIONARY31,
    FUNCTIONARY32,
    LLAMA31,
    LLAMA4_JSON,
)
