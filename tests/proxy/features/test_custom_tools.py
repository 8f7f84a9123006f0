"""Calls of custom tools have their own form, wherever the request defines the tools."""

from types import SimpleNamespace

from toolgate_core.deltas import CallEnd, CallStart, InputDelta
from toolgate_proxy.api.surface import Reading
from toolgate_proxy.api.surfaces import COMPLETIONS
from toolgate_proxy.chat.response import ResponseEvent, ResponseHead

HEAD = ResponseHead("chatcmpl-1", 1, "tiny", "fp_1")
CALL = (CallStart(0, "shell", custom=True), InputDelta(0, "ls"), CallEnd(0))


def test_a_custom_tool_that_a_message_defines_has_calls_of_its_type():
    tool = {"type": "custom", "custom": {"name": "shell"}}
    addition = {"type": "tool_definition", "definition": tool}
    system = {"role": "system", "content": [{"type": "tool_addition", "tool": addition}]}
    body = {"messages": [{"role": "user", "content": "hi"}, system]}
    request, writer = COMPLETIONS.read(body, Reading("tiny"))
    assert [each.custom for each in request.tools] == [True]
    response = SimpleNamespace(
        head=HEAD,
        call_id=lambda start: "call_1",
        prompt_token_ids=None,
        prompt_text=None,
        prompt_logprobs=None,
    )
    first, *others = writer.chunks(response).from_events(ResponseEvent(0, each) for each in CALL)
    deltas = [chunk["choices"][0]["delta"] for chunk in others]
    assert first["choices"][0]["delta"] == {"role": "assistant", "content": None}
    call = {"index": 0, "id": "call_1", "type": "custom", "custom": {"name": "shell", "input": ""}}
    assert deltas == [
        {"tool_calls": [call]},
        {"tool_calls": [{"index": 0, "custom": {"input": "ls"}}]},
    ]
