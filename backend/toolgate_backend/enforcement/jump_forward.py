"""Speculative drafts from forced text, without a draft model.

The envelope, key names and closing characters are 47 % of the tokens of a tool call (BFCL's
reference answers). A draft is only a proposal: the model may still tokenize forced text
differently. The distribution of the sampled tokens is the same with and without drafts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache

from ..tokens.masks import Allow
from .automaton import Automaton
from .repeated_text import RepeatedText
from .state import Phase

CACHED_TEXTS = 4096
"""Maximum number of forced texts whose tokenization is cached."""
CACHED_NODES = 4096
"""Maximum number of nodes of which the forced tokens are cached."""
BYTES_PER_TOKEN = 16
"""Bytes of forced text that are tokenized for each wanted token. A constant can have a hundred
thousand bytes."""


class JumpForward:
    def __init__(self, encode: Callable[[str], tuple[int, ...]]) -> None:
        """`encode` is the tokenizer's own encoding, which the model is most likely to produce."""
        self._encode = lru_cache(CACHED_TEXTS)(encode)
        self._known: OrderedDict[tuple[object, int], Sequence[int]] = OrderedDict()
        """The forced tokens after a node, at most so many."""

    def forced_tokens(self, automaton: Automaton, limit: int) -> Sequence[int]:
        """The likely tokens of the text that must come next, about `limit` of them; may be more.
        The automaton's state is unchanged."""
        state = automaton.state
        if state.ended:
            return ()
        if state.forced:
            return state.forced
        if state.phase is Phase.TOOL_CALL:
            candidates = state.candidates
            if candidates is not None and not candidates.finished:
                # `ignore`: the bytes of an incomplete character cannot be encoded.
                text = candidates.forced()[: limit * BYTES_PER_TOKEN].decode(errors="ignore")
                return self._encode(text)
        mask = automaton.next_mask()
        if isinstance(mask, Allow) and len(mask.ids) == 1:
            return (int(mask.ids[0]),)
        return ()

    def drafts(self, automaton: Automaton, proposed: Sequence[int], limit: int) -> list[int]:
        """At most `limit` draft tokens, none of which is masked.

        The draft starts with the drafter's proposal or with the forced tokens, whichever is better.
        Forced text that follows is added. The automaton's state is unchanged.
        """
        valid = automaton.validate_tokens(proposed[:limit])
        known = list(self.forced_tokens(automaton, limit))[:limit]
        drafts: list[int] = []
        more: Sequence[int] = valid if valid[: len(known)] == known else known
        while more and len(drafts) < limit:
            for token in more[: limit - len(drafts)]:
                if automaton.is_terminated() or not automaton.accept_tokens([token]):
                    automaton.rollback(len(drafts))
                    return drafts
                drafts.append(token)
            more = self.forced_tokens(automaton, limit)
        automaton.rollback(len(drafts))
        return drafts

    def drafts_after(
        self,
        automaton: Automaton,
        in_flight: Sequence[int],
        limit: int,
        text: RepeatedText | None = None,
    ) -> Sequence[int]:
        """At most `limit` draft tokens for a sequence whose next tokens are being sampled already:
        the allowed draft `in_flight`, and one token after it. The automaton's state is unchanged.

        The token after it is the forced one, or else the one that `text` expects, which is the text
        before `in_flight`. If it is another one, the drafts are wrong.
        """
        if in_flight and len(automaton.validate_tokens(in_flight)) < len(in_flight):
            return ()
        automaton.accept_tokens(in_flight)
        drafts = self._forced_after(automaton, limit + 1)
        if not drafts and text is not None:
            drafts = self.drafts(automaton, text.following(in_flight, limit + 1), limit + 1)
        automaton.rollback(len(in_flight))
        return drafts[1:]

    def _forced_after(self, automaton: Automaton, limit: int) -> Sequence[int]:
        """The drafts of forced text. They may be those that a sequence at the same place had."""
        place = automaton.place
        if place is None:
            return self.drafts(automaton, (), limit)
        known = self._known.get((place, limit))
        if known is None:
            known = self._known[place, limit] = self.drafts(automaton, (), limit)
            if len(self._known) > CACHED_NODES:
                self._known.popitem(last=False)
        return known
