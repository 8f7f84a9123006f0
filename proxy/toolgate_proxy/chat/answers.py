"""Answers of backends that are kept, and used again for the same message: a response cache.

An answer is what a backend sent. It is read like one that just arrives: it gets ids of its own, and
its calls are checked again. Its name stands for the model and for everything that the backend got,
the schemas included, so that it is never the answer to another request.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from pydantic import ValidationError

from toolgate_core import wire

from .response import fingerprint

PER_REQUEST = {"request_id", "stream", "batched", "priority", "grammars"}
"""Fields of a message on which the answer does not depend. Its `enforcement` has the keys of the
grammars."""


class Answers(Protocol):
    """The kept answers that one request may get."""

    async def get(self, name: str) -> bytes | None: ...

    def put(self, name: str, data: bytes) -> None:
        """Keep an answer, in the background."""


@dataclass(frozen=True)
class KeptAnswer:
    """Read like an answer that arrives (`EventStream`). It has no deadline."""

    events: list[wire.StreamEvent]
    deadline: float | None = None

    async def __aiter__(self) -> AsyncIterator[list[wire.StreamEvent]]:
        yield self.events

    async def aclose(self) -> None:
        pass


async def kept_answer(answers: Answers, name: str) -> KeptAnswer | None:
    data = await answers.get(name)
    try:
        return None if data is None else KeptAnswer(wire.stream_events.validate_json(data))
    except ValidationError:  # of another release
        return None


def name_of(message: wire.GenerateRequest, info: wire.Info) -> str:
    """Return the name of the answer to a message. `info`: of the backend."""
    enforcement = message.enforcement
    if enforcement is not None and message.sampling.seed is None:
        enforcement = enforcement.model_copy(update={"id_seed": ""})  # it is random
    asked = message.model_copy(update={"enforcement": enforcement})
    text = f"{fingerprint(info)}\0{asked.model_dump_json(exclude=PER_REQUEST)}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
