"""The messages between the gateway and the processes that read PDFs."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel

from ..killable.process import LimitedJob

Problem = Literal[
    "base64", "invalid", "password", "size", "pages", "characters", "no_text", "limits"
]
"""Why a PDF has no text for the model."""


class PdfJob(LimitedJob):
    data: str
    """The file in base64."""
    max_pages: int
    max_characters: int


class PdfResult(BaseModel):
    text: str = ""
    pages: int = 0
    """0 if they were not counted."""
    problem: Problem | None = None
