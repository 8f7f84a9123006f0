"""Random walks over the grammar of a codec, with texts injected that are close to its marks."""

import json
import random
from functools import cached_property

import jsonschema
import numpy as np

from tests.support.dialects.model import parts_of
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.masks import words_per_row
from toolgate_core.schema.canonical import canonical_json, canonical_parameters
from toolgate_core.segmentation.call_reader import make_parser


class CodecModel:
    """The tiny model's tokenizer with the marks `tokens` of a dialect as special tokens. `name` is
    that of the tool."""

    def __init__(self, dialect, tokens=(), name="f"):
        parts = parts_of(dialect, tuple(tokens), True)
        self.dialect = dialect
        self.name = name
        self.vocabulary = parts.vocabulary
        self.form = self.vocabulary.form
        self.compiler = parts.compiler

    def verdict(self, parameters):
        canonical = canonical_parameters(parameters)
        outcome = self.compiler.compile("key", self.name, canonical_json(canonical))
        return outcome.verdict, outcome.grammar

    def grammar(self, parameters):
        verdict, grammar = self.verdict(parameters)
        assert grammar is not None, verdict
        return grammar

    def tokens_of(self, text):
        """The tokens of a text, with its marks as tokens."""
        return [*self.vocabulary.literal_tokens(self.form.marks.encode(text))]

    def accepts(self, grammar, text):
        """Whether the grammar accepts the arguments `text`, written in the tokenizer's tokens."""
        before, after = self.form.grammar_texts(self.name, {"type": "object"})
        marks = self.form.marks
        matcher = grammar.matcher()
        whole = marks.decode(before) + text + marks.decode(after)
        return all(map(matcher.accept, self.tokens_of(whole))) and matcher.finished

    @cached_property
    def _likes(self):
        """Tokens that bring a text to its end."""
        closers = set(b"\"}])>,\n'")
        found = [
            at
            for at, text in enumerate(self.vocabulary.token_bytes)
            if text and set(text) <= closers
        ]
        return np.array(sorted({*found, *self.vocabulary.marks.tokens.values()}))

    def walk(self, grammar, seed, injected=(), limit=300):
        """The encoded text of the arguments; None if they did not end within `limit` tokens. Text
        is injected where the mask allows it. Raises AssertionError at a dead end."""
        dice = random.Random(seed)
        before, after = self.form.grammar_texts(self.name, {"type": "object"})
        matcher = grammar.matcher()
        head = self.vocabulary.literal_tokens(before)
        assert all(map(matcher.accept, head))
        tokens = []
        row = np.zeros(words_per_row(self.vocabulary.size), dtype=np.int32)
        ordinary, likes = np.ones(len(row) * 32, dtype=bool), np.zeros(len(row) * 32, dtype=bool)
        ordinary[sorted(self.vocabulary.special - self.form.grammar_marks)] = False
        likes[self._likes] = True
        hostile = [self.tokens_of(text) for text in injected]
        for _ in range(limit):
            if matcher.finished:
                text = self.encoded(tokens)
                assert text.endswith(after)
                return text[: len(text) - len(after)]
            matcher.fill(row)
            allowed = masks.unpack(row)
            allowed = allowed[ordinary[allowed]]
            assert allowed.size, f"nothing may follow {self.encoded(tokens)!r}"
            if hostile and dice.random() < 0.2:
                for token in dice.choice(hostile):
                    if not matcher.accept(token):
                        break
                    tokens.append(token)
                continue
            liked = allowed[likes[allowed]]
            some = liked if liked.size and dice.random() < 0.6 else allowed
            token = int(some[dice.randrange(some.size)])
            assert matcher.accept(token), "a token of the mask is refused"
            tokens.append(token)
        return None

    def valid_walks(self, parameters, walks, injected):
        """Yield the arguments and the text of each walk that ended, after checking that the
        arguments are valid. If masks leave something to validation, they may be invalid."""
        verdict, grammar = self.verdict(parameters)
        assert grammar is not None, verdict
        for seed in range(walks):
            written = self.walk(grammar, seed, injected)
            if written is not None:
                arguments = json.loads(self.parsed(parameters, written))
                if not verdict.residual:
                    jsonschema.validate(arguments, parameters)
                yield arguments, self.form.marks.decode(written)

    def encoded(self, tokens):
        """The text of tokens, with marks as surrogates."""
        symbols = self.form.marks.symbol_of_token
        parts, run = [], b""
        for token in tokens:
            if token in symbols:
                parts += [run.decode(errors="replace"), symbols[token]]
                run = b""
            else:
                run += self.vocabulary.token_bytes[token]
        return "".join([*parts, run.decode(errors="replace")])

    def parsed(self, parameters, encoded):
        """The JSON that the gateway's parser makes of the arguments."""
        canonical = canonical_parameters(parameters)
        parser = make_parser(self.form.codec, canonical, self.form.marks)
        written = parser.feed(encoded + self.form.grammar_texts(self.name, {"type": "object"})[1])
        assert parser.finished
        return written
