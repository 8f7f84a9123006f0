"""Speculative drafts from forced text and from earlier calls, without a draft model.

The envelope, key names and closing characters are 47 % of the tokens of a tool call (BFCL's
reference answers). Where several texts may follow, such as the names of members in any order, what
equal requests wrote there is likely (`usual_token`). A draft is only a proposal: the model may
still write something else, or tokenize forced text differently. The distribution of the sampled
tokens is the same with and without drafts.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

from ..grammars.graph.node import UNSEEN, Node
from ..tokens.masks import Allow
from .automaton import Automaton
from .state import Phase
from .turn_graph import TurnNode

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


LENGTHS = (4, 3, 2)
"""Numbers of last tokens that are looked for, one after the other."""
WIDTH = array("i").itemsize


class RepeatedText:
    """Drafts from a sequence's own text: what followed its last tokens where they occurred before.

    Arguments of a call often repeat the prompt. vLLM's drafter `ngram` does the same without async
    scheduling."""

    def __init__(self, prompt: Sequence[int]) -> None:
        self._text = bytearray(array("i", prompt).tobytes())
        self._prompt = len(prompt)

    def update(self, output: Sequence[int]) -> int:
        """Add the tokens of the response that are not known yet. `output` is all of them. Returns
        the number of new ones."""
        known = len(self._text) // WIDTH - self._prompt
        self._text += array("i", output[known:]).tobytes()
        return max(0, len(output) - known)

    def following(self, last: Sequence[int], limit: int) -> list[int]:
        """At most `limit` tokens that followed the end of the text with `last` added, where it
        occurred first; none if it did not."""
        end = (self._text[-max(LENGTHS) * WIDTH :] + array("i", last).tobytes())[
            -max(LENGTHS) * WIDTH :
        ]
        for length in LENGTHS:
            at = self._find(end[-length * WIDTH :])
            if at is not None:
                found = array("i", bytes(self._text[at : at + limit * WIDTH]))
                return found.tolist()
        return []

    def _find(self, tokens: bytearray) -> int | None:
        """Where the text goes on after its first part that has these tokens."""
        at = self._text.find(tokens)
        while at % WIDTH and at >= 0:
            at = self._text.find(tokens, at + 1)
        end = at + len(tokens)
        return None if at < 0 or end >= len(self._text) else end


def usual_token(node: TurnNode | Node) -> int | None:
    """The token that followed the node the last two times; None if these were different, or less
    than two."""
    return node.usual if node.usual >= 0 else None


def learn(steps: Iterable[tuple[TurnNode | Node, int]]) -> None:
    """Note the token that was accepted at each node, which all sequences that come there share: a
    model writes the members of an object in the same order in most calls, although masks allow any
    order. What is inside free text, or the text of one sequence only, is left out."""
    for node, token in steps:
        if node.loop is None and (isinstance(node, TurnNode) or node.private is None):
            seen = (token, once(token))
            node.usual = token if node.usual in seen else once(token)


def once(token: int) -> int:
    """How a token is noted that followed the last time only. Never UNSEEN."""
    return UNSEEN + 1 + token
