"""A PDF in a request, before its text is read; the messages to the processes that read it; and the
form in which the model sees a document, the same in all APIs:

<document title="report.pdf">
…
</document>
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any, Literal

from pydantic import BaseModel

END = "\n</document>"
PDF = "pdf"
"""Type of a content part with a PDF, and its member with the `Pdf`."""
BEGIN = b"%PDF-"
BEGIN_WITHIN = 1024
"""Bytes in which a PDF must begin. Some programs write other bytes before it."""
Problem = Literal[
    "base64", "invalid", "password", "size", "pages", "characters", "no_text", "limits"
]
"""Why a PDF has no text for the model."""


def begin(title: str | None, context: str | None = None) -> str:
    """Return the text before a document. `context`: what the client says about it."""
    name = escape(" ".join((title or "").split()), quote=False).replace('"', "&quot;")
    head = f'<document title="{name}">\n' if name else "<document>\n"
    return f"{head}{context}\n\n" if context else head


def wrapped(text: str, title: str | None, context: str | None = None) -> str:
    return f"{begin(title, context)}{text}{END}"


def is_pdf(content: bytes) -> bool:
    """Return whether a file that begins with `content` is a PDF."""
    return BEGIN in content[:BEGIN_WITHIN]


@dataclass(frozen=True)
class Pdf:
    data: str
    """The file in base64."""
    place: str
    """The path of its content part in the request's body."""
    field: str
    """The path of the data in the content part."""
    title: str | None = None
    context: str | None = None

    @property
    def param(self) -> str:
        return f"{self.place}.{self.field}"

    def as_part(self) -> dict[str, Any]:
        return {"type": PDF, PDF: self}

    def as_text(self, text: str) -> dict[str, Any]:
        """Return the content part with the text of the PDF."""
        return {"type": "text", "text": wrapped(text, self.title, self.context)}


class PdfJob(BaseModel):
    data: str
    """The file in base64."""
    max_pages: int
    max_characters: int


class PdfResult(BaseModel):
    text: str = ""
    pages: int = 0
    """0 if they were not counted."""
    problem: Problem | None = None
