"""What one request to the gateway's own route sends to the model, and what the client gets."""

import re
from typing import NamedTuple

from tests.support.litellm.own_route import PATHS, body_of
from tests.support.servers.script import Script, call

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
CALLING = [{"role": "user", "content": "call"}]
RANDOM = re.compile(
    r"(?:chatcmpl|resp|msg|rs|fc|item|call|req)[-_][0-9a-zA-Z]{20,}"
    r'|"(?:created|created_at|completed_at)":[0-9]+|"(?:id_seed|signature)":"[^"]*"'
)
"""What differs between two responses to one request."""


class Outcome(NamedTuple):
    status: int
    sent: str
    """The message to the backend, without its `stream` and `batched`: with a log event, a whole
    response comes in batches."""
    response: str


def content_of(body):
    """Content that satisfies the format of a request, if it has one."""
    structured = body.get("structured_outputs") or {}
    if "choice" in structured or "regex" in structured:
        return "a"
    return '{"a": 1}' if re.search("'format'|_format'|structured", str(body)) else "Hello there"


async def outcome(gateway, api, body):
    """The outcome when the verdicts on the grammars are known."""
    found = await _outcome(gateway, api, body)
    if any(each.report for sent in gateway.backend.requests for each in sent.grammars):
        return await _outcome(gateway, api, body)
    return found


async def _outcome(gateway, api, body):
    gateway.backend.requests.clear()
    answer = Script((f"<think>\nWell.\n</think>\n\n{content_of(body)}",))
    gateway.backend.scripts |= dict.fromkeys(("hi", "ho", "Well"), answer)
    gateway.backend.turns[:] = [Script(("x",)), answer]  # to the messages of a compaction
    gateway.backend.scripts["call"] = Script((call("look", {"a": 1}),))
    response = await gateway.ask(body_of(api, **body), path=PATHS[api])
    requests = gateway.backend.requests
    sent = "".join(each.model_dump_json(exclude={"stream", "batched"}) for each in requests)
    content = b"".join(response.bodies).decode()
    return Outcome(response.status, RANDOM.sub("-", sent), RANDOM.sub("-", content))
