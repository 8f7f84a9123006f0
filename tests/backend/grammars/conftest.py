"""A compiler with the vocabulary of the tiny model for each module, and a judge of schemas."""

import pytest

from tests.support.schemas.judge import Judge
from toolgate_backend.grammars.compiler import Compiler


@pytest.fixture(scope="module")
def compiler(vocabulary):
    return Compiler.from_vocabulary(vocabulary, cache_bytes=2**26)


@pytest.fixture(scope="module")
def judge(compiler, vocabulary):
    return Judge(compiler, vocabulary)
