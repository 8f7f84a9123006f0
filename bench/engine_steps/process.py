"""Work in processes of its own. The process of the command line imports no vLLM."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

from .options import Options, Text
from .results import Session

P = ParamSpec("P")
T = TypeVar("T")


def in_new_process(work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(work, *args, **options).result()


def write(model: str, text: Text, count: int) -> list[list[int]]:
    """Responses. They are written in another process than the engine's, so that the engine has
    never seen them."""
    from tests.support.vocabularies import vocabulary_of

    vocabulary = vocabulary_of(model)
    if text == "natural":
        from .natural import natural_calls

        return natural_calls(vocabulary, count)
    from .random_calls import random_calls

    return random_calls(vocabulary, count)


def measure(options: Options, text: Text, streams: int, responses: list[list[int]]) -> Session:
    from .session import run_session

    return run_session(options, text, streams, responses)
