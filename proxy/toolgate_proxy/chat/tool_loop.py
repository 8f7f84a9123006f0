"""The loop of a turn with tools that the gateway runs: the model's call is validated like any
other, the tool runs, its result is appended, and the generation goes on, all in one response.

It ends with a round without such calls, with one that also has calls for the client, at a limit of
tokens or time, or after MAX_ROUNDS.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from toolgate_core.deltas import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    ContentDelta,
    Finish,
    InputDelta,
    ReasoningDelta,
)
from toolgate_core.errors import ContextLengthExceeded, InvalidRequest, UnsupportedParameter

from ..request.chat_request import AllowedTools, ChatRequest, NamedTool, ToolChoice
from ..request.gateway_tools import GatewayResult, PendingCall
from . import tool_calls
from .choice import ChoiceEvent, GatewayCallRan
from .engine import EngineRun
from .generation import Generation
from .response import ChatResponse, ResponseEvent

CALL_EVENTS = (CallStart, ArgumentsDelta, InputDelta, CallEnd)


@dataclass
class RoundCall:
    """A call of the round, as far as it was written."""

    start: CallStart
    arguments: list[str] = field(default_factory=list)
    complete: bool = False


@dataclass
class Round:
    """What the model wrote in one round."""

    response: ChatResponse
    reasoning: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    calls: list[RoundCall] = field(default_factory=list)
    finish: ResponseEvent | None = None
    """The end of the round, which the client gets only if it ends the response."""

    @property
    def own_calls(self) -> list[RoundCall]:
        """The complete calls of tools that the gateway runs."""
        tools = self.response.sent.gateway_tools
        return [call for call in self.calls if call.complete and call.start.name in tools]

    @property
    def goes_on(self) -> bool:
        """Whether the gateway ran all calls, so that the turn is not over."""
        return bool(self.calls) and len(self.own_calls) == len(self.calls)

    @property
    def only_hidden(self) -> bool:
        """Whether the client sees no call of the round."""
        return all(self._hides(call) for call in self.calls)

    def _hides(self, call: RoundCall) -> bool:
        tool = self.response.sent.gateway_tools.get(call.start.name)
        return tool is not None and not tool.label.shown

    def note(self, events: Iterable[ResponseEvent]) -> list[ResponseEvent]:
        """Return the events without the end, which is kept, without reasoning that the client does
        not want, and without hidden calls."""
        shown = self.response.request.include_reasoning
        passed: list[ResponseEvent] = []
        for each in events:
            match each.event:
                case Finish() as finish:
                    if self.calls and self._hides(self.calls[-1]):
                        finish = replace(finish, call=None)
                    self.finish = ResponseEvent(each.choice, finish)
                    continue
                case ReasoningDelta(text):
                    self.reasoning.append(text)
                    if not shown:
                        continue
                case ContentDelta(text):
                    self.content.append(text)
                case CallStart() as start:
                    self.calls.append(RoundCall(start))
                case ArgumentsDelta(_, text):
                    self.calls[-1].arguments.append(text)
                case CallEnd():
                    self.calls[-1].complete = True
            if isinstance(each.event, CALL_EVENTS) and self._hides(self.calls[-1]):
                continue
            passed.append(each)
        return passed

    def messages(self, results: Iterable[GatewayResult]) -> list[dict[str, Any]]:
        """Return the messages that show the round to the model."""
        ids = [self.response.call_id(call.start) for call in self.calls]
        calls = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": call.start.name, "arguments": "".join(call.arguments)},
            }
            for call_id, call in zip(ids, self.calls, strict=True)
        ]
        turn = {"role": "assistant", "content": "".join(self.content) or None, "tool_calls": calls}
        if self.reasoning:
            turn["reasoning_content"] = "".join(self.reasoning)
        shown = [
            {"role": "tool", "tool_call_id": call_id, "content": result.content}
            for call_id, result in zip(ids, results, strict=True)
        ]
        return [turn, *shown]


MAX_ROUNDS = 10
"""Most rounds of a turn. In the last one, no tool of the gateway can be called."""
MAX_APPROVED = 50
"""Most calls of one request that run because the user has approved them."""


@asynccontextmanager
async def respond(
    run: EngineRun, request: ChatRequest
) -> AsyncIterator[tuple[ChatResponse, AsyncIterator[list[ResponseEvent]]]]:
    """Yield the response and its events in batches. Leaving the context ends the backend's work.

    The events raise ToolSchemaViolation if every attempt at a call failed validation.
    """
    if request.gateway_tools:
        _check(request)
    if request.pending_calls:
        request = await _after_pending(run, request)
    response, generation = await run.begin(request)
    events = run.events(response, generation)
    if request.gateway_tools or request.pending_calls:
        events = _rounds(run, response, generation)
    async with aclosing(events):
        yield response, events


def _check(request: ChatRequest) -> None:
    """Raise UnsupportedParameter for what has no meaning in more than one round."""
    names = ", ".join(sorted(request.gateway_tools))
    if request.sampling.n > 1:
        raise UnsupportedParameter(
            f"'n' must be 1, because the gateway runs these tools inside the response: {names}.",
            param="n",
        )
    if (request.template_kwargs or {}).get("continue_final_message"):
        raise UnsupportedParameter(
            "The last message must be the user's or a tool's, because the gateway runs these "
            f"tools inside the response: {names}.",
            param=request.message_paths[-1] if request.message_paths else "messages",
        )


async def _rounds(
    run: EngineRun, response: ChatResponse, generation: Generation
) -> AsyncGenerator[list[ResponseEvent], None]:
    """Yield the events of all rounds in batches."""
    deadline = generation.events.deadline
    number, limit = 1, response.request.max_tool_calls
    calls_left = math.inf if limit is None else limit - len(response.request.pending_calls)
    if pending := response.request.pending_calls:
        yield [ResponseEvent(0, event) for event in _pending_events(pending)]
    while True:
        written = Round(response)
        batches = run.events(response, generation)
        async with aclosing(batches):
            async for batch in batches:
                yield written.note(batch)
        results: list[GatewayResult] = []
        for call in written.own_calls:
            tool = response.sent.gateway_tools[call.start.name]
            admitted = calls_left > 0
            calls_left -= 1
            arguments = "".join(call.arguments)
            results.append(
                await tool_calls.run(tool, arguments, run.context, deadline, within_limit=admitted)
            )
            if tool.label.shown:
                yield [ResponseEvent(0, GatewayCallRan(call.start, results[-1].shown))]
        if not written.goes_on:
            if written.finish is not None:
                yield [written.finish]
            return
        number += 1
        request = _next(written, results, number, last=number >= MAX_ROUNDS or calls_left <= 0)
        if request is None:
            yield [ResponseEvent(0, Finish("length"))]
            return
        try:
            generation = await run.generate(request, deadline=deadline)
        except ContextLengthExceeded:  # the results fill the context
            yield [ResponseEvent(0, Finish("length"))]
            return
        check = run.constraints.check(generation.constraints)
        response.begin_round(generation.prepared, check)


async def _after_pending(run: EngineRun, request: ChatRequest) -> ChatRequest:
    """Run the calls that the user has approved. Return the request with their results. Clients send
    such calls back, so they are validated again."""
    tools = {tool.name: tool for tool in request.tools}
    most = min(request.max_tool_calls or MAX_APPROVED, MAX_APPROVED)
    for number, call in enumerate(request.pending_calls):
        if call.result is None:
            tool = tools[call.name]
            violation = await run.engine.validators.check(
                tool, call.arguments, unique=True, owner=run.context.caller.sender
            )
            if violation is not None:
                raise InvalidRequest(
                    f"The arguments of the approved call of {call.name!r} violate the tool's "
                    f"schema: keyword {violation.keyword!r} at {violation.pointer!r}. Send the "
                    "request for approval as it was.",
                    param="input",
                )
            call.result = await tool_calls.run(
                call.tool, call.arguments, run.context, within_limit=number < most
            )
    results = {each.placeholder: each.result for each in request.pending_calls}
    messages = tuple(_with_result(message, results) for message in request.messages)
    return replace(request, messages=messages)


def _with_result(
    message: dict[str, Any], results: Mapping[str, GatewayResult | None]
) -> dict[str, Any]:
    content = message.get("content")
    if message["role"] != "tool" or not isinstance(content, str):
        return message
    result = results.get(content)
    return message if result is None else {**message, "content": result.content}


def _pending_events(calls: Iterable[PendingCall]) -> Iterator[ChoiceEvent]:
    """Yield the events of calls that ran before the response. Their numbers are below those of its
    own."""
    for number, call in enumerate(calls, 1):
        assert call.result is not None  # they ran before the generation began
        start = CallStart(-number, call.name)
        yield start
        yield ArgumentsDelta(-number, call.arguments)
        yield CallEnd(-number)
        yield GatewayCallRan(start, call.result.shown)


def _next(
    written: Round, results: list[GatewayResult], number: int, *, last: bool
) -> ChatRequest | None:
    """Return the request of the next round; None if no tokens are left for it. `last`: the gateway
    runs no calls of it."""
    request, first = written.response.sent, written.response.request
    sampling, most = first.sampling, first.sampling.max_tokens
    spent = written.response.counts.completion
    if most is not None:
        if spent >= most:
            return None
        sampling = sampling.model_copy(
            update={"max_tokens": most - spent, "min_tokens": max(0, sampling.min_tokens - spent)}
        )
    added = written.messages(results)
    tools = next((each.tools for each in reversed(results) if each.tools is not None), None)
    request = replace(
        request,
        request_id=f"{first.request_id}-round-{number}",
        messages=(*request.messages, *added),
        message_paths=(*request.message_paths, *[request.message_paths[-1]] * len(added))
        if request.message_paths
        else (),
        tools=request.tools if tools is None else tools,
        listed_tools=request.prompt_tools,
        sampling=sampling,
        echo="",
    )
    called = not written.only_hidden
    return replace(request, tool_choice=_next_choice(request, last=last, called=called))


def _next_choice(request: ChatRequest, *, last: bool, called: bool) -> ToolChoice:
    """Return what the model may call after its first calls. `called`: whether the client has seen
    one, so that a call that was required is made."""
    choice = request.tool_choice
    if last:
        names = tuple(tool.name for tool in request.tools)
        names = choice.names if isinstance(choice, AllowedTools) else names
        others = tuple(name for name in names if name not in request.gateway_tools)
        mode: Literal["auto", "required"] = (
            "required" if choice == "required" and not called else "auto"
        )
        return AllowedTools(mode, others) if others else "none"
    if not called:
        return choice
    if isinstance(choice, AllowedTools):
        return replace(choice, mode="auto")
    return "auto" if isinstance(choice, NamedTool) or choice == "required" else choice
