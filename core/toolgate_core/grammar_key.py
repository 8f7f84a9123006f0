"""Grammar keys. Requests with the same key share a compiled grammar.

key = sha256(tool name + canonical parameters) : dialect : tokenizer fingerprint : engine format.
"""

from __future__ import annotations

import hashlib
from typing import Any

from .errors import InvalidTools
from .schema.canonical import canonical_json

CONTENT = ""
"""The name of the content's schema among those of tools. No tool can have this name."""


def tool_hash(name: str, parameters: dict[str, Any]) -> str:
    """SHA-256 (hex) of a tool's name and canonical parameters.

    Raise InvalidTools for values that JSON cannot represent: NaN, infinities, integers of more than
    4,300 digits."""
    try:
        text = canonical_json([name, parameters])
    except ValueError as error:
        raise InvalidTools(f"The parameters of {name!r} are not valid JSON: {error}.") from error
    return hashlib.sha256(text.encode()).hexdigest()


def grammar_key(tool_hash: str, *, dialect: str, tokenizer: str, grammar_format: str) -> str:
    return f"{tool_hash}:{dialect}:{tokenizer}:{grammar_format}"
