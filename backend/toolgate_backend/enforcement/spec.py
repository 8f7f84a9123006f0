"""The constraints of one sequence, as sent to the engine in vLLM's `extra_args`, and the ids of its
calls."""

from __future__ import annotations

import hashlib
import string
from dataclasses import asdict, dataclass
from typing import Any, Literal

from toolgate_core.dialects.dialect import Dialect

from ..grammars.compiled_grammar import MeasuredGrammar
from ..grammars.store import GrammarStore

EXTRA_ARG = "toolgate"
LISTS = ("keys", "stop_ids", "accepted", "excluded")

ReasoningStart = Literal["open", "must", "may", "closed", "content"]
"""How the response begins. `open`: the prompt ends inside the reasoning. `must`: the first token
starts the reasoning. `may`: the model chooses. `closed`: there is no reasoning. `content`: the
prompt ends inside a message of content."""


@dataclass(frozen=True)
class Spec:
    choice: Literal["none", "auto", "required"]
    keys: tuple[str, ...] = ()
    """Grammar keys of the tools that may be called."""
    max_calls: int | None = None
    reasoning: ReasoningStart = "closed"
    skip_reasoning: bool = False
    """End the reasoning that the prompt has opened immediately: the request disabled it."""
    reasoning_budget: int | None = None
    """Maximum number of reasoning tokens."""
    budget: int | None = None
    """Maximum number of tokens of the sequence, `accepted` included; None: unlimited."""
    call_tokens: int | None = None
    """Tokens to leave for a required call; None: as many as its usual length."""
    repetition_tokens: int = 0
    """Number of repeated tokens after which the repetition of a call or constrained content is
    ended; 0: unlimited."""
    content: str | None = None
    """Grammar key of the content's response format."""
    min_tokens: int = 0
    accepted: tuple[int, ...] = ()
    """Tokens of an earlier response that this sequence continues."""
    excluded: tuple[int, ...] = ()
    """Tokens that must not follow `accepted`, unless no other token is allowed there."""
    ignore_end: bool = False
    """Do not allow the end of the turn in content (`ignore_eos`)."""
    stop_ids: tuple[int, ...] = ()
    """Token ids that end the content."""
    earlier_calls: int = 0
    """Number of calls in the messages of the prompt, for ids that count them."""
    id_seed: str = ""
    """Determines the random ids of calls."""
    choice_number: int = 0
    """Number of the choice in the response. Choices have different ids of calls."""
    first_seed: int | None = None
    """The sampling seed of the first of several choices. vLLM adds the number of the choice."""
    bad_words: tuple[tuple[int, ...], ...] = ()
    """Token sequences that are banned in reasoning and content."""

    def grammars_in(
        self, store: GrammarStore
    ) -> tuple[list[MeasuredGrammar], MeasuredGrammar | None]:
        """Return those of the tools, and that of the content. Raise GrammarNotLoaded."""
        content = None if self.content is None else store.get(self.content)
        return [store.get(key) for key in self.keys], content

    def to_extra_args(self) -> dict[str, Any]:
        return {EXTRA_ARG: asdict(self)}


def from_extra_args(extra_args: dict[str, Any] | None, seed: int | None = None) -> Spec | None:
    """`seed` is the sampling seed of the sequence, which tells the choices of a request apart."""
    fields = (extra_args or {}).get(EXTRA_ARG)
    if fields is None:
        return None
    if seed is not None and fields["first_seed"] is not None:
        number = fields["choice_number"] + seed - fields["first_seed"]
        fields = {**fields, "choice_number": number, "first_seed": None}
    lists = {name: tuple(fields[name]) for name in LISTS}
    words = tuple(tuple(word) for word in fields["bad_words"])
    return Spec(**{**fields, **lists, "bad_words": words})


ALPHABET = string.ascii_letters + string.digits
CHOICE_STEP = 32
"""Difference between the numbers of the first calls of two choices, which have different ids."""


class CallIdentifiers:
    """Ids of calls that stand in the text of a call. The automaton forces them."""

    def __init__(self, dialect: Dialect) -> None:
        self._ids = dialect.calls.ids if dialect.calls else None

    def call_id(self, spec: Spec, index: int) -> str:
        """Return the id of call number `index` of the turn, from 0. Empty if calls have no ids. It
        is the same each time, so that a request can be continued by another backend."""
        if self._ids is None:
            return ""
        index += spec.choice_number * CHOICE_STEP
        if self._ids.kind == "turn":
            return str(self._ids.first + index)
        if self._ids.kind == "conversation":
            return str(self._ids.first + spec.earlier_calls + index)
        digest = hashlib.sha256(f"{spec.id_seed}:{index}".encode()).digest()
        number, text = int.from_bytes(digest), ""
        for _ in range(self._ids.length):
            number, digit = divmod(number, len(ALPHABET))
            text += ALPHABET[digit]
        return text
