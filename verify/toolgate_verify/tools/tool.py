"""A tool of the checks: its schema, a valid call and calls that only break the schema."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..terms import Suite


@dataclass(frozen=True)
class Tool:
    name: str
    description: str
    parameters: dict[str, Any]
    prompt: str = "Call the tool."
    """Asks for a call. Where possible, for one that the schema forbids."""
    example: Any = None
    """Valid arguments."""
    wrong: Any = None
    """Arguments that break exactly the rule that the tool is for."""
    rule: str = ""
    """What the schema requires, as one sentence."""
    feature: str = ""
    """Name of the check, mostly the JSON Schema keyword."""
    section: str = ""
    """Section of JSON Schema's specification that defines the keyword."""
    suite: Suite = Suite.FULL
    max_tokens: int = 300
