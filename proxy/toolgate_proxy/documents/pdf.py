"""A PDF in a request, before its text is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .wrapping import wrapped

PDF = "pdf"
"""Type of a content part with a PDF, and its member with the `Pdf`."""
BEGIN = b"%PDF-"
BEGIN_WITHIN = 1024
"""Bytes in which a PDF must begin. Some programs write other bytes before it."""


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
