"""What a backend is, and how it is doing: `GET /v1/toolgate/info` and `/status`."""

from __future__ import annotations

from typing import Literal

from .message import FORMAT, Message


class MarkIds(Message):
    """Token ids of the dialect's marks, of the ends of a turn, and of what means failure."""

    call_begin: int | None = None
    call_end: int | None = None
    reasoning_begin: int | None = None
    reasoning_end: int | None = None
    end_of_turn: tuple[int, ...] = ()
    failure: int | None = None
    """Masked in every phase; forced when a request's enforcement breaks, so that its stream ends
    with this stop reason and its neighbours go on."""
    closed: int | None = None
    """Masked in every phase; forced after a call whose end was forced (`on_budget: close`)."""

    @property
    def every(self) -> frozenset[int]:
        """The ids of all of them: other tokens are text."""
        single = (self.call_begin, self.call_end, self.reasoning_begin, self.reasoning_end)
        known = (*single, self.failure, self.closed)
        return frozenset(self.end_of_turn).union(mark for mark in known if mark is not None)


class Limits(Message):
    max_model_len: int
    max_logprobs: int
    max_grammars: int


class Info(Message):
    format: int = FORMAT
    model: str
    models: tuple[str, ...]
    """Every name the backend answers to: the served names and the LoRA adapters."""
    vllm_version: str
    adapter: str
    dialect: str
    marks: MarkIds
    tokenizer: str
    """Fingerprint of the vocabulary: grammars compiled for one tokenizer fit no other."""
    grammar_format: str
    """Version of the engines and of the envelope; part of every grammar key."""
    limits: Limits
    images: bool = False
    """Messages may hold images, as data URIs."""
    call_ids: Literal["random", "kimi_k2"] = "random"
    """Kimi's template writes calls by their ids, which must be `functions.<name>:<number>`."""


class Status(Message):
    """What the backend holds now; for tests and status pages."""

    loaded_grammars: int
    pinned_grammars: int
    """Grammars that a request in flight uses."""
    sequences: int
    """Automata in the engine's batch, as of its last step."""
    running: int
    """Requests whose answer is being generated."""
