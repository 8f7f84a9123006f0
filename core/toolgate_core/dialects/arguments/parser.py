"""The interface of the parsers of arguments."""

from __future__ import annotations

from typing import Protocol, Self


class ArgumentsParser(Protocol):
    """Converts the text of one call's arguments to the JSON text of an object, incrementally.

    Texts are encoded (`Marks.encode`): marks are lone surrogates. The JSON does not depend on how
    the text is split over calls of `feed`, except for the split of the JSON text. Values are passed
    on as text: numbers keep their digits, and nothing is converted by guessing.

    Errors: ArgumentsError for text that is not in the codec's form.
    """

    @property
    def finished(self) -> bool:
        """Whether the arguments are complete. The text after them is in `rest`."""
        ...

    @property
    def rest(self) -> str:
        """The text after the arguments that was fed; empty unless `finished`."""
        ...

    def feed(self, text: str) -> str:
        """The JSON text that follows from `text`; may be empty."""
        ...

    def cut(self) -> str:
        """The rest of the JSON text if the text ends here, by `max_tokens`. It is unfinished JSON
        unless the arguments were complete: a string that was cut off stays open."""
        ...

    def copy(self) -> Self:
        """An independent copy with the same state."""
        ...


class ArgumentsError(ValueError):
    """The text is not in the codec's form. `at` is the offset of the error in the text so far."""

    def __init__(self, message: str, at: int) -> None:
        super().__init__(message)
        self.at = at
