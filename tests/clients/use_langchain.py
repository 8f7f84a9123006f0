"""LangChain: bind_tools, invoke, stream, structured output, a loop of two turns.

With the argument `responses`, on the Responses API; with `messages`, on the Messages API. The cases
run at once.
"""

import sys
from concurrent.futures import ThreadPoolExecutor

import shared
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI

API = sys.argv[1] if len(sys.argv) > 1 else "chat"
COMMON = {
    "model": shared.MODEL,
    "api_key": shared.KEY,
    "max_tokens": shared.MAX_TOKENS,
    "max_retries": 0,
    "stream_usage": True,
}
BODY = {**shared.BODY, "seed": 5}
model = (
    ChatAnthropic(base_url=shared.ORIGIN, model_kwargs={"extra_body": BODY}, **COMMON)
    if API == "messages"
    else ChatOpenAI(
        base_url=shared.URL,
        extra_body=BODY,
        **COMMON,
        **({"use_responses_api": True, "store": False} if API == "responses" else {}),
    )
)
REASONING = {
    "chat": {"reasoning_effort": "high"},
    "responses": {"reasoning": {"effort": "high"}},
    "messages": {"thinking": {"type": "enabled", "budget_tokens": 1024}, "max_tokens": 2048},
}[API]
REQUIRED = "required"
NONE = "none"
if API == "messages":  # ChatAnthropic takes these words for the names of tools
    REQUIRED, NONE = "any", {"type": "none"}
USER = [HumanMessage(shared.QUESTION)]


def is_cut(answer):
    metadata = answer.response_metadata
    return (
        metadata.get("finish_reason") == "length"
        or metadata.get("status") == "incomplete"
        or metadata.get("stop_reason") == "max_tokens"
    )


def collected(bound):
    whole = None
    for chunk in bound.stream(USER):
        whole = chunk if whole is None else whole + chunk
    return whole


CASES = [
    ("auto", {"tool_choice": "auto"}),
    ("required", {"tool_choice": REQUIRED}),
    ("any", {"tool_choice": "any"}),
    ("named", {"tool_choice": "set_tags"}),
    ("none", {"tool_choice": NONE}),
    ("one call", {"tool_choice": REQUIRED, "parallel_tool_calls": False}),
    ("reasoning", {"tool_choice": REQUIRED, **REASONING}),
]


def check_case(name, how):
    bound = model.bind_tools(shared.TOOLS, **how)
    for answer in (bound.invoke(USER), collected(bound)):
        cut = is_cut(answer)
        assert not answer.invalid_tool_calls or cut
        for call in answer.tool_calls if not cut else []:
            shared.check_call(call["name"], call["args"])
        if name in ("required", "any", "named", "one call", "reasoning"):
            assert answer.tool_calls or cut
        if name == "none":
            assert not answer.tool_calls
        if name in ("one call", "named"):
            assert len(answer.tool_calls) <= 1
        assert answer.usage_metadata["output_tokens"] > 0
    shared.done(f"{name}, invoke and stream")


def check_structured(method):
    structured = model.with_structured_output(shared.Weather, method=method)
    assert isinstance(structured.invoke(USER), shared.Weather)
    shared.done(f"with_structured_output by {method}")


def check_loop():
    first = model.bind_tools(shared.TOOLS, tool_choice="set_tags").invoke(USER)
    assert isinstance(first, AIMessage)
    results = [ToolMessage("done", tool_call_id=call["id"]) for call in first.tool_calls]
    second = model.bind_tools(shared.TOOLS).invoke([*USER, first, *results])
    assert second.usage_metadata["output_tokens"] > 0
    shared.done("a loop of two turns")


with ThreadPoolExecutor() as pool:
    running = [pool.submit(check_case, name, how) for name, how in CASES]
    running += [pool.submit(check_structured, way) for way in ("json_schema", "function_calling")]
    running.append(pool.submit(check_loop))
    for each in running:
        each.result()
