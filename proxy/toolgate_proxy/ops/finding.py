"""`toolgate doctor`: the checks of an installation, and the form of their results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "problem"]
MARKS: dict[Level, str] = {"ok": "✓", "note": "-", "problem": "✗"}


@dataclass(frozen=True)
class Finding:
    topic: str
    text: str
    level: Level = "ok"
    """`note`: something is absent that this machine may not need."""

    @property
    def line(self) -> str:
        return f"{MARKS[self.level]} {self.topic}: {self.text}"
