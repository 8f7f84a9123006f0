"""How a damaged or foreign history is read: one rule for all APIs.

Clients send every earlier turn again, so a turn that is refused once ends its conversation. A part
of a turn that no template can show is therefore replaced or left out, and its place is noted for
the client. docs/api/chat.md has the rule.

Chat templates expect that each turn with calls is followed by at least one result for each call, in
the order of the calls. Most leave out the ids, so the order is all that assigns a result to its
call. Some refuse a result without a call.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict, deque
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...request.chat_request import Change, HistoryChange
from ...request.toolset import Toolset
from ...request_fields import Fields
from ...routing.prefix_affinity import without_billing

THINKING = ("thinking", "redacted_thinking", "reasoning", "reasoning_text", "summary_text")
"""Types of content parts with reasoning of other services, which is no text of the turn."""
MAX_PLACES = 50
"""Most places of one kind that are noted. A header has no room for more."""
TEXT_MEMBERS = (
    "title",
    "text",
    "content",
    "source",
    "output",
    "outputs",
    "results",
    "logs",
    "stdout",
    "stderr",
    "error",
    "message",
)
"""Members of entries of other services that have text, or contain members that have it."""


class History:
    """The changes to one conversation."""

    def __init__(self) -> None:
        self._places: dict[Change, dict[str, None]] = {}

    @property
    def changes(self) -> tuple[HistoryChange, ...]:
        return tuple(
            HistoryChange(kind, path) for kind, paths in self._places.items() for path in paths
        )

    def note(self, kind: Change, path: str) -> None:
        places = self._places.setdefault(kind, {})
        if len(places) < MAX_PLACES:
            places[path] = None

    def arguments(self, call: Fields, name: str = "arguments") -> str:
        """Return the arguments in a field of a call, as the text of a JSON object. Templates
        iterate over the members, so they cannot show anything else, such as the arguments of a cut
        call."""
        value = call.values.get(name)
        if isinstance(value, dict):
            return json.dumps(value, ensure_ascii=False)
        if value is None or value == "":
            return "{}"
        if isinstance(value, str) and _is_object(value):
            return value
        self.note("arguments", call.path(name))
        return "{}"

    def note_unknown(self, fields: Fields, known: Container[str]) -> None:
        """Note the fields that are not in `known`, which the caller does not read."""
        for name, value in fields.values.items():
            if name not in known and value is not None:
                self.note("left_out", fields.path(name))

    def system(self, text: str, path: str) -> str:
        """Return a text of a system message, without the lines that are no part of the prompt."""
        if (prompt_text := without_billing(text)) != text:
            self.note("left_out", path)
        return prompt_text

    def system_parts(self, parts: Iterable[Part], path: str) -> list[Part]:
        """Return the parts of a system message without such lines. A part that has nothing else is
        left out."""
        texts = [(part["text"], self.system(part["text"], path)) for part in parts]
        return [{"type": "text", "text": text} for sent, text in texts if text or not sent]

    def text(self, entry: Mapping[str, Any], path: str) -> str:
        """Return the text of an entry of another service; empty if it is left out."""
        text = "" if entry.get("type") in THINKING else text_of(entry)
        self.note("as_text" if text else "left_out", path)
        return text

    def result_text(self, part: Mapping[str, Any], path: str) -> str:
        """Return the text that stands for a part of the result of a call. The model should know of
        a part that it cannot see."""
        return self.text(part, path) or f"[{part['type']} left out]"


def tool_of(kind: str) -> str:
    """Return the name of the tool of which an entry of another service is shown as a result."""
    return re.sub(r"(?:_call|_call_output|_tool_result)$|[^A-Za-z0-9_-]", "", kind)[:60] or UNKNOWN


def text_of(value: object) -> str:
    return "\n".join(_texts(value))


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, dict):
        for name in TEXT_MEMBERS:
            yield from _texts(value.get(name))
        if value.get("type") == "text":  # the source of a document
            yield from _texts(value.get("data"))


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


Message = dict[str, Any]
PlacedMessage = tuple[Message, str]
"""A message and its path in the request's body."""
Part = dict[str, Any]
Content = str | list[Part]


def joined(parts: list[Part]) -> Content:
    """Return the content of a message: one text, or the parts."""
    if len(parts) == 1 and parts[0]["type"] == "text":
        text: str = parts[0]["text"]
        return text
    return parts


@dataclass(frozen=True)
class PromptMessages:
    """The messages of the prompt, with their places in the request."""

    messages: tuple[Message, ...]
    paths: tuple[str, ...]
    """The path of each message in the request's body."""
    part_paths: tuple[Sequence[str], ...]
    """The paths of the parts of each message's content, where they were read one by one."""


@dataclass
class Turn:
    """A message whose content may be read in parts."""

    message: Message
    path: str
    parts: list[Part] = field(default_factory=list)
    part_paths: list[str] = field(default_factory=list)

    @property
    def has_content(self) -> bool:
        return bool(self.parts) or self.message.get("content") is not None

    def extend(self, parts: Iterable[tuple[Part, str]]) -> None:
        """Add parts of the content, at their paths."""
        if not self.parts and (content := self.message.get("content")):
            whole = [{"type": "text", "text": content}] if isinstance(content, str) else content
            self.parts, self.part_paths = [*whole], [self.path] * len(whole)
        for part, path in parts:
            self.parts.append(part)
            self.part_paths.append(path)


class Turns:
    """Messages under construction, in the form of chat templates. What an assistant's turn consists
    of may be several items or blocks of an API; in a template it is one message."""

    def __init__(self, history: History, tools: Toolset) -> None:
        self.history = history
        self.tools = tools
        self._turns: list[Turn] = []
        self._call_ids: set[str] = set()

    @property
    def count(self) -> int:
        """The number of messages so far."""
        return len(self._turns)

    def begin(self, message: Message, path: str) -> Turn:
        self._turns.append(Turn(message, path))
        return self._turns[-1]

    def last(self, role: str) -> Turn | None:
        """Return the last message, if it has this role."""
        last = self._turns[-1] if self._turns else None
        return last if last is not None and last.message["role"] == role else None

    def assistant(self, last: Turn | None, path: str) -> Turn:
        """Return the message that goes on, otherwise a new one of the assistant."""
        return last or self.begin({"role": "assistant", "content": None}, path)

    def reasoning(self, text: str, path: str) -> None:
        last = self.last("assistant")
        if last is not None and (last.has_content or "tool_calls" in last.message):
            last = None
        message = self.assistant(last, path).message
        earlier = message.get("reasoning_content")
        message["reasoning_content"] = f"{earlier}\n\n{text}" if earlier else text

    def call(self, call_id: str, name: str, arguments: str, path: str) -> None:
        """`arguments`: as JSON."""
        self._call_ids.add(call_id)
        message = self.assistant(self.last("assistant"), path).message
        message.setdefault("tool_calls", []).append(tool_call(call_id, name, arguments))

    def has_call(self, call_id: str) -> bool:
        return call_id in self._call_ids

    def result(self, call_id: str, content: Content, path: str, *, name: str = "") -> Turn:
        """`name`: of the tool, by which the call is found if it has no id."""
        result = {"role": "tool", "tool_call_id": call_id}
        if name and not call_id:
            result["name"] = name
        return self.begin({**result, "content": content}, path)

    def other_result(self, name: str, content: Content, path: str) -> None:
        """Add what a tool returned that another service ran, as the result of a call of it."""
        call_id = f"other_{len(self._turns)}"
        self.call(call_id, name, "{}", path)
        self.result(call_id, content, path)

    def compacted(
        self,
        remaining: Callable[[Sequence[str]], Sequence[int]],
        messages: Iterable[Message],
        path: str,
    ) -> None:
        """Replace the conversation so far. `remaining`: returns the places of the messages that
        stay, by the roles of all."""
        stays = remaining([turn.message["role"] for turn in self._turns])
        self._turns = [self._turns[at] for at in stays]
        for message in messages:
            self._call_ids |= {call["id"] for call in message.get("tool_calls") or ()}
            self.begin({**message}, path)

    def finished(self) -> PromptMessages:
        """Return the messages with each result after its call. A result belongs to the call with
        its id, otherwise to a call before it that has no result: one of its name, or the first one.
        A last message with calls may have no results yet."""
        for turn in self._turns:
            if turn.parts:
                turn.message["content"] = joined(turn.parts)
        part_paths = {id(turn.message): turn.part_paths for turn in self._turns}
        pairs: list[PlacedMessage] = [(turn.message, turn.path) for turn in self._turns]
        if any(message["role"] == "tool" or message.get("tool_calls") for message, _ in pairs):
            pairing = _Pairing(self.history)
            for message, path in pairs:
                pairing.add(message, path)
            pairs = [*pairing.finished()]
        return PromptMessages(
            messages=tuple(message for message, _ in pairs),
            paths=tuple(path for _, path in pairs),
            part_paths=tuple(part_paths.get(id(message), ()) for message, _ in pairs),
        )


NO_RESULT = "[no result]"
UNKNOWN = "unknown"
"""The name of a call that is not in the history, if its result has none."""


def tool_call(call_id: str, name: str, arguments: str = "{}") -> dict[str, Any]:
    """Return a call as messages have it. `arguments`: as JSON; none if only the result is known."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


@dataclass
class _AnsweredTurn:
    message: Message
    path: str
    results: list[list[PlacedMessage]] = field(init=False)
    """Of each call."""

    def __post_init__(self) -> None:
        self.results = [[] for _ in self.calls]

    @property
    def calls(self) -> list[dict[str, Any]]:
        return self.message.get("tool_calls") or []

    def add_result(self, at: int, message: Message, path: str) -> None:
        message["tool_call_id"] = self.calls[at]["id"]
        self.results[at].append((message, path))


class _Pairing:
    """Pairs calls and results, in time proportional to their number, whatever their ids are."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._turns: list[_AnsweredTurn] = []
        """The messages that are no results."""
        self._calls: dict[str, deque[tuple[_AnsweredTurn, int]]] = {}
        """By id: the calls of the latest turn that has it, until only one is left. Some services
        use an id again."""
        self._unassigned: list[PlacedMessage] = []
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

    def finished(self) -> Iterator[PlacedMessage]:
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

    def _begin(self, message: Message, path: str) -> _AnsweredTurn:
        turn = _AnsweredTurn(message, path)
        self._turns.append(turn)
        calls_by_id: dict[str, deque[tuple[_AnsweredTurn, int]]] = {}
        for at, call in enumerate(turn.calls):
            call_id = str(call.get("id") or "")
            calls = calls_by_id.setdefault(call_id, deque())
            calls.append((turn, at))
            is_unique = call_id and len(calls) == 1
            call["id"] = call_id if is_unique else f"call_{len(self._turns)}_{at}"
        calls_by_id.pop("", None)
        self._calls |= calls_by_id
        return turn

    def _assign(self) -> None:
        """Assign results to the calls of the last turn that have none: the first one of the name of
        the result, or the first one. A result without such a call gets a call of its own."""
        turn = self._turns[-1] if self._unassigned and self._turns else _AnsweredTurn({}, "")
        unanswered = OrderedDict(
            (at, call["function"]["name"])
            for at, (call, results) in enumerate(zip(turn.calls, turn.results, strict=True))
            if not results
        )
        named: dict[object, deque[int]] = {}
        for at, name in unanswered.items():
            named.setdefault(name, deque()).append(at)
        for message, path in self._unassigned:
            places = named.get(message.get("name"), deque())
            while places and places[0] not in unanswered:
                places.popleft()
            if unanswered:
                at = places[0] if places else next(iter(unanswered))
                del unanswered[at]
                turn.add_result(at, message, path)
                continue
            self._history.note("lost_call", path)
            call = tool_call(message.get("tool_call_id") or "", message.get("name") or UNKNOWN)
            lost = {"role": "assistant", "content": None, "tool_calls": [call]}
            self._begin(lost, path).add_result(0, message, path)
        self._unassigned.clear()
