"""Work in processes of its own. The process of the command line imports no vLLM."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import ParamSpec, TypeVar

from .blocks import Options, Session, Text

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

    from .calls import write_calls

    return write_calls(vocabulary_of(model), text, count)


def measure(options: Options, text: Text, streams: int, responses: list[list[int]]) -> Session:
    from .session import run_session

    return run_session(options, text, streams, responses)
