"""A compiler with the vocabulary of the tiny model for each module, and a judge of schemas."""

from __future__ import annotations

import pytest

from tests.support.schemas.judge import Judge
from toolgate_backend.grammars.compiler import Compiler
from toolgate_backend.tokens.vocabulary import Vocabulary


@pytest.fixture(scope="module")
def compiler(vocabulary: Vocabulary) -> Compiler:
    return Compiler.from_vocabulary(vocabulary, cache_bytes=2**26)


@pytest.fixture(scope="module")
def judge(compiler: Compiler, vocabulary: Vocabulary) -> Judge:
    return Judge(compiler, vocabulary)
