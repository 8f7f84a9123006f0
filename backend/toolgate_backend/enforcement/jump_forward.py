"""Speculative drafts from forced text and from earlier calls, without a draft model.

The envelope, key names and closing characters are 47 % of the tokens of a tool call (BFCL's
reference answers). Where several texts may follow, such as the names of members in any order, what
equal requests wrote there is likely (usual_tokens.py). A draft is only a proposal: the model may
still write something else, or tokenize forced text differently. The distribution of the sampled
tokens is the same with and without drafts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from ..tokens.masks import Allow
from .automaton import Automaton
from .repeated_text import RepeatedText
from .state import Phase
from .usual_tokens import usual_token

CACHED_TEXTS = 4096
"""Maximum number of forced texts whose tokenization is cached."""
BYTES_PER_TOKEN = 16
"""Bytes of forced text that are tokenized for each wanted token. A constant can have a hundred
thousand bytes."""


class JumpForward:
    def __init__(self, encode: Callable[[str], tuple[int, ...]]) -> None:
        """`encode` is the tokenizer's own encoding, which the model is most likely to produce."""
        self._encode = lru_cache(CACHED_TEXTS)(encode)

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

        The draft starts with the drafter's proposal or with the expected tokens, whichever is
        better. What is expected after it is added. The automaton's state is unchanged.
        """
        valid = automaton.validate_tokens(proposed[:limit])
        known = list(self._expected(automaton, limit))[:limit]
        drafts: list[int] = []
        more: Sequence[int] = valid if valid[: len(known)] == known else known
        while more and len(drafts) < limit:
            for token in more[: limit - len(drafts)]:
                if automaton.is_terminated() or not automaton.accept_tokens([token]):
                    automaton.rollback(len(drafts))
                    return drafts
                drafts.append(token)
            more = self._expected(automaton, limit)
        automaton.rollback(len(drafts))
        return drafts

    def drafts_after(
        self,
        automaton: Automaton,
        in_flight: Sequence[int],
        limit: int,
        text: RepeatedText | None = None,
    ) -> list[int]:
        """At most `limit` draft tokens for a sequence whose next tokens are being sampled already:
        the allowed draft `in_flight`, and one token after it. The automaton's state is unchanged.

        The token after it is the usual or the forced one, or else the one that `text` expects,
        which is the text before `in_flight`. If it is another one, the drafts are wrong.
        """
        before, drafts = len(automaton.tokens), list[int]()
        if automaton.accept_tokens(in_flight):
            drafts = self.drafts(automaton, (), limit + 1)
            if not drafts and text is not None:
                drafts = self.drafts(automaton, text.following(in_flight, limit + 1), limit + 1)
        automaton.rollback(len(automaton.tokens) - before)
        return drafts[1:]

    def _expected(self, automaton: Automaton, limit: int) -> Sequence[int]:
        """The token that usually follows, or else the forced tokens. None inside free text."""
        place = automaton.place
        if place is not None:
            if place.loop is not None:
                return ()
            usual = usual_token(place)
            if usual is not None:
                return (usual,)
        return self.forced_tokens(automaton, limit)
