"""The texts of a dialect that a segmenter looks for, encoded for one tokenizer: in free text, and
at the beginning and the end of typed messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from functools import lru_cache

from ..dialects.arguments.parser import overlap
from ..dialects.dialect import Calls, Dialect, Part, Slot
from ..dialects.marks import Marks
from ..wire import TokenLogprob


class TurnForm:
    """All texts are encoded (`Marks.encode`). `tokens` maps the text of each mark to its id."""

    def __init__(self, dialect: Dialect, tokens: Mapping[str, int]) -> None:
        self.marks = Marks(tokens)
        encode = self.marks.encode
        reasoning, calls = dialect.reasoning, dialect.calls
        self.reasoning_begin = encode(reasoning.begin) if reasoning else ""
        self.reasoning_end = encode(reasoning.end) if reasoning else ""
        self.after_reasoning = encode(reasoning.after) if reasoning else ""
        self.end_after_reasoning = encode(reasoning.content_end) if reasoning else ""
        """Text that ends the content after reasoning."""
        content = dialect.content
        self.content_begin = encode(content.begin)
        """Text before the content, if the family writes typed messages."""
        self.content_end = encode(content.end)
        self.content_last = encode(content.last)
        self.preamble = encode(content.preamble)
        self.preamble_end = encode(content.preamble_end)
        self.calls = calls
        self.calls_end = encode(calls.end) if calls else ""
        self.first_call = self._parts(calls, calls.begin) if calls else ()
        self.further_call = self._parts(calls, calls.separator) if calls else ()
        around = (each for each in (self.reasoning_begin, self.reasoning_end) if each)
        self.text_in_reasoning = not all(map(self._is_mark, around))
        """Whether the reasoning begins or ends with ordinary text. Each token is then read alone,
        so that the tokens of the reasoning are counted, however many arrive together."""
        begins_with_mark = calls is None or self.trigger_token() is not None
        self.marks_end_text = begins_with_mark and not self.text_in_reasoning
        """Whether only marks begin and end the reasoning, and begin the calls."""

    def _parts(self, calls: Calls, opening: str) -> tuple[Part, ...]:
        """Return the parts of a call with the text before it; adjacent literals are joined."""
        parts: list[Part] = []
        for part in (opening, *calls.call):
            literal = part if isinstance(part, Slot) else self.marks.encode(part)
            if literal == "":
                continue
            if parts and isinstance(literal, str) and isinstance(parts[-1], str):
                parts[-1] += literal
            else:
                parts.append(literal)
        return tuple(parts)

    def _is_mark(self, text: str) -> bool:
        return len(text) == 1 and self.marks.is_mark(text)

    def triggers(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return the texts that begin the calls in content: up to the first mark, or to the first
        slot. If a call begins with the name, the names of the tools with the text after them."""
        if not self.first_call:
            return ()
        first = self.first_call[0]
        if self.content_begin and isinstance(first, str):
            return (first,)
        if isinstance(first, Slot):
            after = self.first_call[1]
            return tuple(name + after for name in names) if isinstance(after, str) else ()
        marks = (at for at, char in enumerate(first) if self.marks.is_mark(char))
        return (first[: next(marks, len(first)) + 1],)

    def trigger_token(self) -> int | None:
        """Return the token that begins the calls, if that is one mark."""
        triggers = self.triggers(())
        return self.marks.token(triggers[0]) if triggers and self._is_mark(triggers[0]) else None

    def further_begin(self) -> str:
        """Return the text with which another call begins, up to its first slot."""
        first = self.further_call[0] if self.further_call else ""
        return first if isinstance(first, str) else ""


@lru_cache(maxsize=64)
def turn_form(dialect: Dialect, tokens: tuple[tuple[str, int], ...]) -> TurnForm:
    """Cached: the form is the same for all requests to a backend."""
    return TurnForm(dialect, dict(tokens))


class FreeText:
    """Text that is withheld until it is known to be part of the response.

    Withheld are trailing white space, because models write line breaks around marks, and text that
    may be the beginning of one of the texts that end the free text."""

    def __init__(self) -> None:
        self.text = ""
        self.logprobs: list[TokenLogprob] = []

    def copy(self) -> FreeText:
        twin = FreeText()
        twin.text, twin.logprobs = self.text, [*self.logprobs]
        return twin

    def add(self, text: str, logprob: TokenLogprob | None) -> None:
        self.text += text
        if logprob is not None:
            self.logprobs.append(logprob)

    def take(self) -> tuple[str, tuple[TokenLogprob, ...]]:
        taken = self.text, tuple(self.logprobs)
        self.text, self.logprobs = "", []
        return taken

    def find(self, ends: Sequence[str], *, at_start: bool = False) -> tuple[int, str] | None:
        """Return the first of `ends` that occurs, and its position. With `at_start`, only at 0."""
        if at_start:
            return next(((0, end) for end in ends if self.text.startswith(end)), None)
        places = [(at, end) for end in ends if (at := self.text.find(end)) >= 0]
        return min(places, default=None)

    def release(self, ends: Sequence[str]) -> tuple[str, tuple[TokenLogprob, ...]]:
        """Return the text that is part of the response, whatever follows; empty if it is white
        space."""
        keep = 0
        for end in ends:
            if len(end) > 1:  # a mark is no beginning of itself
                keep = max(keep, overlap(self.text, end))
        released = self.text[: len(self.text) - keep].rstrip()
        if not released:
            return "", ()
        self.text = self.text[len(released) :]
        logprobs, self.logprobs = tuple(self.logprobs), []
        return released, logprobs


class MessageKind(Enum):
    REASONING = auto()
    CONTENT = auto()
    """Content at the end of the turn."""
    PREAMBLE = auto()
    """Content that calls follow."""
    CALLS = auto()


class Messages:
    """The texts with which the messages of one dialect begin. `triggers` are those of calls."""

    def __init__(self, form: TurnForm, triggers: Sequence[str]) -> None:
        begins = [
            (form.reasoning_begin, MessageKind.REASONING),
            (form.content_begin, MessageKind.CONTENT),
            (form.preamble, MessageKind.PREAMBLE),
            *((trigger, MessageKind.CALLS) for trigger in triggers),
        ]
        self._begins = [(text, message) for text, message in begins if text]
        self._ends = {
            MessageKind.CONTENT: form.content_end,
            MessageKind.PREAMBLE: form.preamble_end,
        }

    def begun(self, written: str) -> tuple[MessageKind, str] | None:
        """Return the message that begins with `written`, and its beginning."""
        begun = (each for each in self._begins if written.startswith(each[0]))
        longest = max(begun, key=lambda each: len(each[0]), default=None)
        return None if longest is None else (longest[1], longest[0])

    def may_begin(self, written: str) -> bool:
        """Whether a message may begin with `written` and more text."""
        return any(text != written and text.startswith(written) for text, _ in self._begins)

    def end(self, message: MessageKind) -> str:
        """Return the text that ends a message of content; empty if there is none."""
        return self._ends[message]
