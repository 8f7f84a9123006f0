"""Speculative drafts from forced text and from earlier calls, without a draft model.

The envelope, key names and closing characters are 47 % of the tokens of a tool call (BFCL's
reference answers). Where several texts may follow, such as the names of members in any order, what
equal requests wrote there is likely (`learn`). A draft is only a proposal: the model may
still write something else, or tokenize forced text differently. The distribution of the sampled
tokens is the same with and without drafts.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from ..grammars.graph.node import UNSEEN, Node
from ..tokens.masks import Row, unpack
from .automaton import Ahead, Automaton
from .state import Phase
from .turn_graph import TurnNode

FORCED_BYTES = 64
"""Bytes of forced text of which the first token is wanted. A constant can have a hundred
thousand."""
FEW_TOKENS = 256
"""Tokens that a mask of forced text may allow: those with which the text begins."""
NONE = -1


class StepPlan(NamedTuple):
    """The step of a sequence with drafts, and what comes after it."""

    rows: Sequence[Row]
    """The mask before each draft, and after the last one."""
    valid: int
    """The number of drafts that are allowed. The masks of others mean nothing."""
    following: Sequence[int]
    """The drafts of the next step."""


class JumpForward:
    def __init__(self, encode: Callable[[str], Sequence[int]]) -> None:
        """`encode` is the tokenizer's own encoding, which the model is most likely to produce."""
        self._encode = encode

    def drafts(self, automaton: Automaton, proposed: Sequence[int], limit: int) -> list[int]:
        """At most `limit` draft tokens, none of which is masked.

        The draft starts with the drafter's proposal, or else with the expected tokens. What is
        expected after it is added. Where nothing can be looked up, it is the proposal. The
        automaton's state is unchanged."""
        drafts = self._drafts(Ahead(automaton), proposed, limit)
        return drafts or automaton.validate_tokens(proposed[:limit])

    def plan(
        self,
        automaton: Automaton,
        drafts: Sequence[int],
        limit: int,
        text: RepeatedText | None = None,
    ) -> StepPlan:
        """Plan a step whose tokens are being sampled, with these drafts, and at most `limit` drafts
        of the step after it. The automaton's state is unchanged.

        Between them is one token that is not known: the usual or the forced one, or else the one
        that `text` expects, which is the text before the drafts. If it is another one, the drafts
        of the next step are wrong."""
        ahead = Ahead(automaton)
        rows = [ahead.row]
        for token in drafts:
            if not ahead.accept(token):
                break
            rows.append(ahead.row)
        valid = len(rows) - 1
        rows += rows[-1:] * (len(drafts) - valid)
        if not limit:
            return StepPlan(rows, valid, ())
        proposed: Sequence[int] = ()
        if text is not None and self._expected(ahead) is None:
            proposed = text.following(drafts[:valid], limit + 1)
        return StepPlan(rows, valid, self._drafts(ahead, proposed, limit + 1)[1:])

    def _drafts(self, ahead: Ahead, proposed: Sequence[int], limit: int) -> list[int]:
        drafts = list[int]()
        if proposed and self._expected(ahead) in (None, proposed[0]):
            for token in proposed[:limit]:
                if not ahead.accept(token):
                    break
                drafts.append(token)
        while len(drafts) < limit:
            expected = self._expected(ahead)
            if expected is None or not ahead.accept(expected):
                break
            drafts.append(expected)
        return drafts

    def _expected(self, ahead: Ahead) -> int | None:
        """Return the token that usually follows, or else the one that begins the forced text. None
        inside free text."""
        node = ahead.node
        if node.loop is not None or not ahead.goes_on:
            return None
        if node.usual >= 0:
            return node.usual
        if node.forced == UNSEEN:
            node.forced = self._forced(ahead)
        return node.forced if node.forced >= 0 else None

    def _forced(self, ahead: Ahead) -> int:
        """Return the first token of the text that must come next; negative if there is none."""
        row, state = ahead.row, ahead.state
        if row.count == 1:
            return int(unpack(row.words)[0])
        of_grammars = state.phase in (Phase.TOOL_CALL, Phase.FORMAT)
        if not of_grammars or state.candidates is None or state.forced or row.count > FEW_TOKENS:
            return NONE
        # `ignore`: the bytes of an incomplete character cannot be encoded.
        text = state.candidates.forced()[:FORCED_BYTES].decode(errors="ignore")
        return next(iter(self._encode(text)), NONE)


LENGTHS = (2, 3, 4)
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
        """Add the tokens of the response that are not known yet. `output` is all of them. Return
        the number of new ones."""
        known = len(self._text) // WIDTH - self._prompt
        self._text += array("i", output[known:]).tobytes()
        return max(0, len(output) - known)

    def following(self, last: Sequence[int], limit: int) -> list[int]:
        """At most `limit` tokens that followed the end of the text with `last` added, where most of
        it occurred first; none if it did not."""
        end = self._text[-LENGTHS[-1] * WIDTH :] + array("i", last).tobytes()
        latest: int | None = None
        for length in LENGTHS:
            at = self._find(end[-length * WIDTH :])
            if at is None:
                break
            latest = at
        if latest is None:
            return []
        return array("i", bytes(self._text[latest : latest + limit * WIDTH])).tolist()

    def _find(self, tokens: bytearray) -> int | None:
        """Return where the text goes on after its first part that has these tokens."""
        at = self._text.find(tokens)
        while at % WIDTH and at >= 0:
            at = self._text.find(tokens, at + 1)
        end = at + len(tokens)
        return None if at < 0 or end >= len(self._text) else end


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
