"""The tiny model's tokenizer with the marks of a dialect, and its enforcement."""

import copy
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests import tools
from tests.models import tiny_model
from toolgate_backend.endpoint.token_stream import TextDecoder
from toolgate_backend.enforcement.automaton import Automaton
from toolgate_backend.enforcement.model_data import ModelData
from toolgate_backend.enforcement.spec import Spec
from toolgate_backend.enforcement.turn_graph import TurnGraphs
from toolgate_backend.grammars.compiled_grammar import MeasuredGrammar, extra_tokens, limits_of
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.grammars.engines.engine import CompiledGrammar
from toolgate_backend.grammars.graph.value_bounds import ValueBounds
from toolgate_backend.grammars.least_tokens import LeastTokens
from toolgate_backend.tokens.masks import BitmaskRow
from toolgate_backend.tokens.vocabulary import Vocabulary, make_vocabulary
from toolgate_core.deltas import ArgumentsDelta, CallStart, Event
from toolgate_core.dialects import dialect as forms
from toolgate_core.dialects.dialect import ARGUMENTS, Dialect
from toolgate_core.schema.canonical import canonical_json
from toolgate_core.segmenter import Segmenter
from toolgate_core.tools import content_format, parse_tools

PARAMETERS: dict[str, Any] = {
    tool["function"]["name"]: tool["function"]["parameters"] for tool in tools.ALL
}
_LIKES = frozenset(b'"}],<>/\n') | frozenset(b"calstrgohun")


@cache
def _tiny() -> tuple[Any, int, Any]:
    """The tiny model's tokenizer, the size of its vocabulary, and its end-of-turn tokens."""
    import transformers

    directory = tiny_model()
    return (
        transformers.AutoTokenizer.from_pretrained(directory),
        transformers.AutoConfig.from_pretrained(directory).vocab_size,
        transformers.GenerationConfig.from_pretrained(directory).eos_token_id,
    )


@dataclass(frozen=True)
class Parts:
    vocabulary: Vocabulary
    data: ModelData
    compiler: Compiler

    @cached_property
    def spellings(self) -> dict[bytes, list[int]]:
        """The tokens of each text, in their order."""
        found: dict[bytes, list[int]] = {}
        for token, text in enumerate(self.vocabulary.token_bytes):
            found.setdefault(text, []).append(token)
        return found

    @cached_property
    def longest(self) -> int:
        return max(map(len, self.spellings))

    @cached_property
    def turns(self) -> TurnGraphs:
        return TurnGraphs(self.data)

    @cached_property
    def value_bounds(self) -> ValueBounds:
        vocabulary = self.vocabulary
        return ValueBounds(vocabulary.form, vocabulary.unit_bytes, vocabulary.size)

    @cached_property
    def split_texts(self) -> NDArray[np.bool_]:
        texts = self.vocabulary.unit_bytes
        return np.array([b"\\" in each or not each.isascii() for each in texts])


def measure(
    compiled: CompiledGrammar,
    name: str,
    parameters: dict[str, Any],
    least: LeastTokens,
    rewritten: str | None = None,
) -> MeasuredGrammar:
    """What the quarantine measures. `rewritten`: the schema of the engine, if it is another one."""
    given = parameters if rewritten is None else json.loads(rewritten)
    least_tokens, extra = least.of(name, given), extra_tokens(parameters)
    return MeasuredGrammar(compiled, least_tokens, name, extra, limits_of(parameters))


@lru_cache(maxsize=12)
def parts_of(dialect: Dialect, tokens: Sequence[str], special: bool) -> Parts:
    """What models with other tools share. It takes a quarter of a second of processor time. The
    tests of a module use a dozen dialects at most."""
    from transformers import AddedToken

    made, size, ends = _tiny()
    tokenizer = copy.deepcopy(made) if tokens else made
    tokenizer.add_tokens([AddedToken(text, special=special, normalized=False) for text in tokens])
    size = (max(size, len(tokenizer)) + 31) // 32 * 32  # logits are padded
    vocabulary = make_vocabulary(tokenizer, size, ends, dialect)
    compiler = Compiler.from_vocabulary(vocabulary, cache_bytes=2**26)
    return Parts(vocabulary, ModelData(vocabulary), compiler)


def _ends(codec: forms.Codec) -> Sequence[str]:
    """The texts that end a value in arguments that are not JSON."""
    match codec:
        case forms.FlatTags(end=end):
            return (end, "]", "}", '"')
        case forms.GemmaValues(quote=quote):
            return (quote, "]", "}", ",")
        case forms.NestedTags(namespace=namespace):
            return (f"{namespace}</",)
        case forms.Pythonic():
            return ("'", '"', "]", "}", ", ")
    return ()


class DialectModel:
    """`tokens` are the marks that are tokens; all other marks are text. `special`: whether the
    tokenizer calls them special. Conversations have five earlier calls."""

    def __init__(
        self,
        dialect: Dialect,
        tokens: Sequence[str] = (),
        offered: Sequence[Any] = tools.ALL,
        special: bool = True,
    ) -> None:
        parts = parts_of(dialect, tuple(tokens), special)
        self.dialect = dialect
        self.vocabulary = parts.vocabulary
        self.data, self.turns = parts.data, parts.turns
        self.compiler = parts.compiler
        self._parts = parts
        self._offered = parse_tools(list(offered))

    @property
    def value_bounds(self) -> ValueBounds:
        return self._parts.value_bounds

    @property
    def split_texts(self) -> NDArray[np.bool_]:
        """Whether a token may be a part of a character or an escape, by token."""
        return self._parts.split_texts

    def grammar(self, name: str, parameters: dict[str, Any]) -> MeasuredGrammar:
        outcome = self.compiler.compile("key", name, canonical_json(parameters))
        assert outcome.grammar is not None, outcome.verdict
        rewritten = outcome.verdict.rewritten
        least = LeastTokens(self.vocabulary.form, self.data.token_index)
        return measure(outcome.grammar, name, parameters, least, rewritten)

    @lru_cache  # noqa: B019 - one model for each dialect
    def tools(self) -> list[MeasuredGrammar]:
        return [self.grammar(tool.name, tool.parameters) for tool in self._offered]

    def automaton(self, content: Any = None, **spec: Any) -> Automaton:
        form = content_format(content, param="") if content else None
        grammar = self.grammar(form.name, form.parameters) if form else None
        made = Spec(**spec, earlier_calls=5, id_seed="seed")
        return Automaton(self.turns, made, self.tools(), grammar)

    def text(self, tokens: list[int]) -> str:
        ends = {*self.vocabulary.marks.end_of_turn, self.vocabulary.marks.cut}
        written = (self.vocabulary.token_bytes[t] for t in tokens if t not in ends)
        return b"".join(written).decode(errors="replace")

    def longest(self, row: BitmaskRow, text: bytes, at: int = 0) -> int | None:
        """The longest token that a mask allows and that `text` has at this place."""
        spellings = self._parts.spellings
        for end in range(min(len(text), at + self._parts.longest), at, -1):
            for token in spellings.get(text[at:end], ()):
                if row[token // 32] >> (token % 32) & 1:
                    return token
        return None

    def segment(
        self,
        tokens: Sequence[int],
        splits: Sequence[int] = (),
        reason: str = "stop",
        stop: int | None = None,
        schemas: Mapping[str, dict[str, Any]] | None = None,
        **how: Any,
    ) -> list[Event]:
        """The events of these tokens, fed in parts that end at `splits`. `stop`: the token that
        ended the response, as vLLM would say. `schemas`: those of other tools."""
        decoder = TextDecoder(self.vocabulary)
        texts = [decoder.decode(token) for token in tokens]
        if schemas is None:
            schemas = {tool.name: tool.parameters for tool in self._offered}
        segmenter = Segmenter(self.dialect, self.vocabulary.marks, schemas=schemas, **how)
        events: list[Event] = []
        for begin, end in pairwise([0, *sorted(splits), len(tokens)]):
            events += segmenter.feed(tokens[begin:end], texts[begin:end])
        return events + segmenter.finish(reason, stop, decoder.rest())

    @cached_property
    def closers(self) -> list[list[int]]:
        """Texts that end something in the dialect's arguments or messages, as tokens."""
        encode, calls = self.vocabulary.form.marks.encode, self.dialect.calls
        after = calls.call[calls.call.index(ARGUMENTS) + 1 :] if calls else ()
        ends = _ends(self.vocabulary.form.codec)
        texts = [each for each in after[:1] if ends and isinstance(each, str)]
        texts += [self.dialect.content.end, *ends]
        return [[*self.vocabulary.literal_tokens(encode(text))] for text in texts if text]

    @cached_property
    def liked(self) -> NDArray[np.bool_]:
        """Whether a token brings a text to its end, by token."""
        texts = self.vocabulary.token_bytes
        found = np.array([bool(text) and set(text) <= _LIKES for text in texts])
        marks = self.vocabulary.marks
        found[[*marks.end_of_turn, *marks.tokens.values()]] = True
        return found


class EndingChoice:
    """Chooses random tokens, with a liking for ends."""

    def __init__(self, model: DialectModel, rng: random.Random) -> None:
        self._model = model
        self._rng = rng
        self._planned: list[int] = []

    def __call__(self, allowed: NDArray[np.integer[Any]]) -> int:
        if not self._planned and self._model.closers and self._rng.random() < 0.15:
            self._planned = [*self._rng.choice(self._model.closers)]
        if self._planned and self._planned[0] in allowed:
            return self._planned.pop(0)
        self._planned = []
        liked = allowed[self._model.liked[allowed]]
        return int(self._rng.choice(liked if len(liked) and self._rng.random() < 0.5 else allowed))


def calls_in(events: list[Event]) -> list[tuple[str, str]]:
    """Name and arguments of each call, in order."""
    found: list[tuple[str, str]] = []
    for event in events:
        if isinstance(event, CallStart):
            found.append((event.name, ""))
        elif isinstance(event, ArgumentsDelta):
            found[-1] = (found[-1][0], found[-1][1] + event.text)
    return found
