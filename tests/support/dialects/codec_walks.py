"""Random walks over the grammar of a codec, with texts injected that are close to its marks."""

import json
import random
from functools import cached_property
from itertools import takewhile

import jsonschema
import numpy as np

from tests.support.dialects.model import parts_of
from tests.support.walker.walk import Liking, walk
from toolgate_backend.tokens import masks
from toolgate_backend.tokens.masks import words_per_row
from toolgate_core.schema.canonical import canonical_json, canonical_parameters
from toolgate_core.segmentation.call_reader import make_parser

OBJECT = {"type": "object"}


class _Written:
    """Arguments under a grammar."""

    def __init__(self, model, grammar):
        self.tokens, self._matcher = [], grammar.matcher()
        before, _ = model.form.grammar_texts(model.name, OBJECT)
        assert all(map(self._matcher.accept, model.vocabulary.literal_tokens(before)))
        self._row = np.zeros(words_per_row(model.vocabulary.size), dtype=np.int32)
        self._ordinary = np.ones(len(self._row) * 32, dtype=bool)
        self._ordinary[sorted(model.vocabulary.special - model.form.grammar_marks)] = False

    @property
    def finished(self):
        return self._matcher.finished

    def allowed(self):
        self._matcher.fill(self._row)
        allowed = masks.unpack(self._row)
        return allowed[self._ordinary[allowed]]

    def accept(self, token):
        accepted = self._matcher.accept(token)
        self.tokens += [token] * accepted
        return accepted


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
        before, after = self.form.grammar_texts(self.name, OBJECT)
        marks = self.form.marks
        matcher = grammar.matcher()
        whole = marks.decode(before) + text + marks.decode(after)
        return all(map(matcher.accept, self.tokens_of(whole))) and matcher.finished

    @cached_property
    def _likes(self):
        """Whether a token brings a text to its end, by token."""
        closers, ends = set(b"\"}])>,\n'"), {*self.vocabulary.marks.tokens.values()}
        texts = enumerate(self.vocabulary.token_bytes)
        return [at in ends or bool(text and set(text) <= closers) for at, text in texts]

    def walk(self, grammar, seed, injected=(), limit=300):
        """The encoded text of the arguments; None if they did not end within `limit` tokens. Text
        is injected where the mask allows it. Raises AssertionError at a dead end."""
        dice, source = random.Random(seed), _Written(self, grammar)
        hostile = [self.tokens_of(text) for text in injected]

        def inject(_):
            if not hostile or dice.random() >= 0.2:
                return False
            return [*takewhile(source.accept, dice.choice(hostile))] or True

        if not walk(source, Liking(self._likes, dice, 0.6), limit, inject):
            return None
        text, (_, after) = self.encoded(source.tokens), self.form.grammar_texts(self.name, OBJECT)
        assert text.endswith(after)
        return text[: len(text) - len(after)]

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
        written = parser.feed(encoded + self.form.grammar_texts(self.name, OBJECT)[1])
        assert parser.finished
        return written
