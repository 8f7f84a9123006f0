"""Brings the calls of a conversation and their results together, as chat templates expect them:
each turn with calls is followed by at least one result for each call, in the order of the calls.

Most templates leave out the ids, so the order is all that assigns a result to its call. Some refuse
a result without a call.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from toolgate_core.custom_tools import INPUT

from .history import History

Message = dict[str, Any]
Placed = tuple[Message, str]
"""A message and its path in the request's body."""
NO_RESULT = "[no result]"
UNKNOWN = "unknown"
"""The name of a call that is not in the history, if its result has none."""


def with_results(given: Iterable[Placed], history: History) -> list[Placed]:
    """The messages with each result after its call. A result belongs to the call with its id,
    otherwise to a call before it that has no result: one of its name, or the first one. A last
    message with calls may have no results yet."""
    pairing = _Pairing(history)
    for message, path in given:
        pairing.add(message, path)
    return [*pairing.finished()]


def function_call(name: str, text: str) -> dict[str, Any]:
    """The call of a custom tool as that of the function that the model is offered."""
    return {"name": name, "arguments": json.dumps({INPUT: text}, ensure_ascii=False)}


def lost_call(call_id: str, name: str) -> dict[str, Any]:
    """A call of which only the result is known."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


@dataclass
class _Turn:
    message: Message
    path: str
    results: list[list[Placed]] = field(init=False)
    """Of each call."""

    def __post_init__(self) -> None:
        self.results = [[] for _ in self.calls]

    @property
    def calls(self) -> list[dict[str, Any]]:
        return self.message.get("tool_calls") or []

    def add_result(self, at: int, message: Message, path: str) -> None:
        message["tool_call_id"] = self.calls[at]["id"]
        self.results[at].append((message, path))


class _OpenCalls:
    """The calls of a turn that have no result, in their order and by their names."""

    def __init__(self, turn: _Turn) -> None:
        self._turn = turn
        self._open = {at for at, results in enumerate(turn.results) if not results}
        self._all = deque(sorted(self._open))
        self._named: dict[object, deque[int]] = {}
        for at in self._all:
            self._named.setdefault(turn.calls[at]["function"]["name"], deque()).append(at)

    def answer(self, message: Message, path: str) -> bool:
        """Assigns a result to the first one of its name, or to the first one. False if there is
        none."""
        for calls in (self._named.get(message.get("name"), deque()), self._all):
            while calls:
                if (at := calls.popleft()) in self._open:
                    self._open.discard(at)
                    self._turn.add_result(at, message, path)
                    return True
        return False


class _Pairing:
    """Takes time in proportion to the number of messages and calls, whatever their ids are."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._turns: list[_Turn] = []
        """The messages that are no results."""
        self._calls: dict[str, deque[tuple[_Turn, int]]] = {}
        """By id: the calls of the latest turn that has it, until only one is left. Some services
        use an id again."""
        self._unassigned: list[Placed] = []
        """Results since the last turn whose ids are not those of calls."""

    def add(self, message: Message, path: str) -> None:
        if message["role"] != "tool":
            self._assign()
            self._begin(message, path)
            return
        calls = self._calls.get(message.get("tool_call_id") or "")
        if calls is None:
            self._unassigned.append((message, path))
            return
        turn, at = calls.popleft() if len(calls) > 1 else calls[0]
        turn.add_result(at, message, path)

    def finished(self) -> Iterator[Placed]:
        self._assign()
        for turn in self._turns:
            yield turn.message, turn.path
            if turn is self._turns[-1] and not any(turn.results):
                return
            for call, results in zip(turn.calls, turn.results, strict=True):
                if not results:
                    self._history.note("no_result", turn.path)
                    missing = {"role": "tool", "tool_call_id": call["id"], "content": NO_RESULT}
                    yield missing, turn.path
                yield from results

    def _begin(self, message: Message, path: str) -> _Turn:
        turn = _Turn(message, path)
        self._turns.append(turn)
        own: dict[str, deque[tuple[_Turn, int]]] = {}
        for at, call in enumerate(turn.calls):
            call_id = str(call.get("id") or "")
            calls = own.setdefault(call_id, deque())
            calls.append((turn, at))
            is_unique = call_id and len(calls) == 1
            call["id"] = call_id if is_unique else f"call_{len(self._turns)}_{at}"
        own.pop("", None)
        self._calls |= own
        return turn

    def _assign(self) -> None:
        if not self._unassigned:
            return
        calls = _OpenCalls(self._turns[-1]) if self._turns else None
        for message, path in self._unassigned:
            if calls is not None and calls.answer(message, path):
                continue
            self._history.note("lost_call", path)
            call = lost_call(message.get("tool_call_id") or "", message.get("name") or UNKNOWN)
            lost = {"role": "assistant", "content": None, "tool_calls": [call]}
            self._begin(lost, path).add_result(0, message, path)
        self._unassigned.clear()
