"""What clients get and send back without reading it: ids of calls, and signatures of thinking
blocks.

Anthropic's form of an id is `toolu_…`, with letters, digits, `_` and `-` only. Some families write
ids of their own form into the text of a call (`functions.look:0`). Such an id is part of the id
that the client gets, so that it returns with the call's result.

A signature is the sealed text of the thinking. A client that continues a conversation sends
thinking blocks back with their signatures. The text is then verified, or restored if the client
asked for blocks without it (`display: "omitted"`).
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from functools import partial

from toolgate_core.errors import InvalidRequest

from ...sealing import OwnerSeal

GENERATED = re.compile(r"call_([A-Za-z0-9]{24})")
"""An id that the gateway generated."""
OWN = re.compile(r"toolu_([A-Za-z0-9]{24})")
RUN = ("srv", "mcp")
"""Beginnings of the ids of calls that the provider runs, and of those of MCP servers."""
CONTAINING = re.compile(r"toolu_[0-9a-f]{12}_([A-Za-z0-9_-]+)")


def shown_id(call_id: str, response_id: str, index: int) -> str:
    """Return the id for the client. `index` is the number of the call in the response: ids that a
    family counts anew in each turn differ by it and by the response."""
    if match := GENERATED.fullmatch(call_id):
        return f"toolu_{match[1]}"
    unique = hashlib.sha256(f"{response_id}:{index}".encode()).hexdigest()[:12]
    encoded = base64.urlsafe_b64encode(call_id.encode()).decode().rstrip("=")
    return f"toolu_{unique}_{encoded}"


def original_id(tool_use_id: str) -> str:
    """Return the id that `shown_id` was made of, which may have a beginning of RUN; any other id is
    returned unchanged."""
    for beginning in RUN:
        tool_use_id = tool_use_id.removeprefix(beginning)
    if match := OWN.fullmatch(tool_use_id):
        return f"call_{match[1]}"
    if match := CONTAINING.fullmatch(tool_use_id):
        encoded = match[1]
        try:
            padded = encoded + "=" * (-len(encoded) % 4)
            return base64.b64decode(padded, altchars=b"-_", validate=True).decode()
        except ValueError:
            pass
    return tool_use_id


PURPOSE = "thinking"


def signer(seal: OwnerSeal | None) -> Callable[[str], str]:
    """Return the function that signs thinking."""
    if seal is None:
        return lambda _: ""
    return partial(seal.seal_text, purpose=PURPOSE)


def verified(seal: OwnerSeal | None, text: str, signature: str, path: str) -> str | None:
    """Return the text of a thinking block; None if its signature is not one for this owner:
    thinking of another model or key is no part of this conversation. Raise InvalidRequest if the
    text was changed, as Anthropic does."""
    original = None if seal is None else seal.open_text(signature, purpose=PURPOSE)
    if text and original is not None and text != original:
        raise InvalidRequest(
            f"{path + '.thinking'!r} was changed, so it does not match its signature. Send "
            "thinking blocks as they were received, or remove the block.",
            param=f"{path}.thinking",
        )
    return original
